// tests/bench/bench_source.h -- samples for timed training steps: random tokens with labels that can be learnt.
#pragma once

#include "base/philox.h"
#include "runtime/batch_source.h"

namespace trainctl::bench {

// Token t of sample s is random; its label is a fixed function of it, so the loss must fall.
class BenchSource final : public BatchSource {
 public:
  BenchSource(int64_t vocab, int64_t sequence) : vocab_(vocab), sequence_(sequence) {}
  void fill(SampleSplit, int64_t first, int64_t count, const SampleBuffers& out) override {
    for (int64_t i = 0; i < count * sequence_; ++i) {
      const int64_t sample = first + i / sequence_, t = i % sequence_;
      out.tokens[i] = static_cast<int32_t>(philox(7, static_cast<uint64_t>(sample), static_cast<uint64_t>(t))[0] % 997);
      out.labels[i] = static_cast<int32_t>((out.tokens[i] * 31 + 7) % vocab_);
      out.positions[i] = static_cast<int32_t>(t);
    }
  }

 private:
  int64_t vocab_, sequence_;
};

}  // namespace trainctl::bench
