// tests/golden/hf_fixture.h -- one model of tests/golden/hf: its recipe, its batch, and what transformers computed.
#pragma once

#include <string>
#include <vector>

#include "support/tiny.h"

namespace trainctl::testing {

struct Fixture {
  Recipe recipe;
  int64_t batch = 0, sequence = 0;
  std::vector<int32_t> tokens, labels;
  std::vector<float> logits;
  double loss = 0;
  Tensors weights, gradients;
};
Fixture load_fixture(const std::string& name);

class FixtureSource final : public BatchSource {
 public:
  explicit FixtureSource(const Fixture& f) : f_(f) {}
  void fill(SampleSplit, int64_t first, int64_t count, const SampleBuffers& out) override;

 private:
  const Fixture& f_;
};

}  // namespace trainctl::testing
