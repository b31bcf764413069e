// tests/bench/checkpoint_state.cpp -- states of any size, clocks, medians.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/hash.h"
#include "base/units.h"
#include "checkpoint_bench.h"

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

BenchState::BenchState(int64_t total_bytes, int64_t rank, int64_t world, bool replica)
    : device_(make_cpu_device()), arena_(std::make_unique<Arena>(*device_)) {
  const int64_t rows = std::max<int64_t>(1, total_bytes / (kTensors * 3 * kColumns * 4));
  const Span64 part = replica ? Span64{0, rows} : even_split(rows, world, rank);
  uint64_t stream = 0;
  for (int64_t t = 0; t < kTensors; ++t)
    for (const char* role : {"master", "exp_avg", "exp_avg_sq"}) {
      StateEntry e;
      e.name = fmt::format("layers.{}.weight", t);
      e.role = role;
      e.shape = {rows, kColumns};
      e.box = {{part.begin, 0}, {part.size(), kColumns}};
      e.owner = !replica || rank == 0;
      e.local = Tensor(*arena_, e.box.extent, DType::f32, MemoryCategory::optimizer);
      fill(static_cast<float*>(e.local.data()), e.local.numel(),
           (stream++ << 40) + static_cast<uint64_t>(part.begin * kColumns));
      catalog_.push_back(std::move(e));
    }
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
