// tests/bench/checkpoint_state.cpp -- states of any size, clocks, medians.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/hash.h"
#include "base/units.h"
#include "checkpoint_bench.h"
#include "trainer/rank_agreement.h"

namespace trainctl::bench {
namespace {

constexpr int64_t kColumns = 1024;
constexpr int64_t kTensors = 24;  // of each role

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

// Floats in [1, 2) that differ from element to element.
void fill(float* to, int64_t count, uint64_t first) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t mixed = (first + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull;
    const uint32_t bits = 0x3f800000u | static_cast<uint32_t>(mixed >> 41);
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

}  // namespace

bool CheckpointBenchOptions::wants(const std::string& name) const {
  return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double process_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

BenchState::BenchState(int64_t total_bytes, int64_t rank, int64_t world, Cut cut) {
  const int64_t rows = std::max<int64_t>(1, total_bytes / (kTensors * 3 * kColumns * 4));
  const Span64 row = cut == Cut::rows ? even_split(rows, world, rank) : Span64{0, rows};
  const Span64 column = cut == Cut::columns ? even_split(kColumns, world, rank) : Span64{0, kColumns};
  uint64_t stream = 0;
  for (int64_t t = 0; t < kTensors; ++t)
    for (const char* role : {"master", "exp_avg", "exp_avg_sq"}) {
      StateEntry e;
      e.name = fmt::format("layers.{}.weight", t);
      e.role = role;
      e.shape = {rows, kColumns};
      e.box = {{row.begin, column.begin}, {row.size(), column.size()}};
      e.owner = cut != Cut::replicas || rank == 0;
      e.local = Tensor(arena(), e.box.extent, DType::f32, MemoryCategory::optimizer);
      auto* to = static_cast<float*>(e.local.data());
      for (int64_t r = row.begin; r < row.end; ++r, to += column.size())
        fill(to, column.size(), (stream << 40) + static_cast<uint64_t>(r * kColumns + column.begin));
      ++stream;
      catalog_.push_back(std::move(e));
    }
}

BenchRank::BenchRank(testing::ThreadWorld& meeting, ThreadsHub& hub, int64_t rank)
    : device_(make_cpu_device()), arena_(std::make_unique<Arena>(*device_)) {
  world_ = std::make_unique<World>(Mesh({.data = hub.size()}), hub.collectives_for(static_cast<int>(rank)), *arena_);
  agreement_ = meeting.agreement(rank);
  agreement_.node = node_ranks(*world_, std::vector<std::string>(static_cast<size_t>(hub.size()), "here"));
}

void BenchState::wipe() {
  for (StateEntry& e : catalog_)
    if (e.local.bytes() > 0) std::memset(e.local.data(), 0xA5, static_cast<size_t>(e.local.bytes()));
}

std::vector<std::string> BenchState::digests() const {
  std::vector<std::string> all;
  for (const StateEntry& e : catalog_) all.push_back(xxh128_hex(e.local.data(), static_cast<size_t>(e.local.bytes())));
  return all;
}

int64_t BenchState::bytes() const {
  int64_t total = 0;
  for (const StateEntry& e : catalog_) total += e.local.bytes();
  return total;
}

}  // namespace trainctl::bench
