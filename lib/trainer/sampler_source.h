// lib/trainer/sampler_source.h -- the sampler as the runtime's batch source.
#pragma once

#include <functional>
#include <string>

#include "data/sampler.h"
#include "runtime/batch_source.h"

namespace trainctl {

class SamplerSource final : public BatchSource {
 public:
  explicit SamplerSource(const Sampler& sampler) : sampler_(sampler) {}
  void fill(SampleSplit split, int64_t first, int64_t count, const SampleBuffers& out) override;

 private:
  const Sampler& sampler_;
};

// The ids of samples [first, first + count) of the training split as one JSON line:
// {"step":3,"samples":[[0,0,17],...]}: number of the source (data_order.h), epoch, sequence in the epoch.
std::string sample_line(const Sampler& sampler, int64_t step, int64_t first, int64_t count);

}  // namespace trainctl
