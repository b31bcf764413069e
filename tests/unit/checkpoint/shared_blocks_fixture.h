// tests/unit/checkpoint/shared_blocks_fixture.h -- large matrices, saved and loaded in every cut, and what a load may
// read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fixture.h"
#include "support/needed_blocks.h"

namespace trainctl::testing {

inline constexpr int kReplica = -1, kRows = 0, kColumns = 1;
inline const std::vector<int> kCuts = {kReplica, kRows, kColumns};

// Matrices of f64 whose elements follow from name and place: large ones in little time.
class Matrices {
 public:
  Matrices(const std::vector<GlobalTensor>& globals, int64_t rank, int64_t world) : state(globals, rank, world) {}
  void fill() {
    for_each([](uint64_t& is, uint64_t should) { is = should; });
  }
  int64_t wrong() {
    int64_t count = 0;
    for_each([&](const uint64_t& is, uint64_t should) { count += is != should; });
    return count;
  }
  RankState state;

 private:
  template <class F>
  void for_each(F&& f) {
    for (const StateEntry& e : state.catalog) {
      const uint64_t name = stream(e.name + e.role);
      auto* at = static_cast<uint64_t*>(e.local.data());
      for (int64_t r = 0; r < e.box.extent[0]; ++r)
        for (int64_t c = 0; c < e.box.extent[1]; ++c) {
          const auto place = static_cast<uint64_t>((e.box.offset[0] + r) * e.shape[1] + e.box.offset[1] + c);
          // An exponent that makes it finite.
          f(*at++, (((place + name) * 0x9E3779B97F4A7C15ull) >> 12) | 0x3ff0000000000000ull);
        }
    }
  }
  static uint64_t stream(const std::string& text) {
    uint64_t sum = 7;
    for (const char c : text) sum = sum * 1000003 + static_cast<unsigned char>(c);
    return sum << 24;
  }
};

// Nine matrices, 13 MB in several blocks: each way to be cut when saved with each way to be cut when loaded.
std::vector<GlobalTensor> all_cuts(bool saving);
// 42 MB in two files.
std::vector<GlobalTensor> large(int cut);

void save(const std::filesystem::path& folder, const std::vector<GlobalTensor>& model, int64_t world, int64_t step = 1);

struct Loaded {
  RestoreResult result;
  int64_t wrong = -1;
  BlockSet blocks;  // that this rank needs
};

// Each rank with its own part of `model`, and with options that `change` may alter. A load that throws is rethrown.
std::vector<Loaded> load(const std::filesystem::path& folder, const std::vector<GlobalTensor>& model,
                         ThreadWorld& ranks, int64_t world,
                         const std::function<void(int64_t, CheckpointerOptions&)>& change = {});

// The law: over the ranks of a node every block once that one of them needs, and every rank has all its blocks.
void check_counts(const std::vector<Loaded>& all, const std::vector<int>& nodes);

}  // namespace trainctl::testing
