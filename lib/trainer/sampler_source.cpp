// lib/trainer/sampler_source.cpp -- see the header.
#include "trainer/sampler_source.h"

#include <fmt/format.h>

namespace trainctl {

void SamplerSource::fill(SampleSplit split, int64_t first, int64_t count, const SampleBuffers& out) {
  sampler_.fill(
      split == SampleSplit::train ? Split::train : Split::validation, first, count,
      {.tokens = out.tokens, .labels = out.labels, .positions = out.positions, .document_start = out.document_start});
}

std::string sample_line(const Sampler& sampler, int64_t step, int64_t first, int64_t count) {
  std::string line = fmt::format(R"({{"step":{},"samples":[)", step);
  for (int64_t i = 0; i < count; ++i) {
    const SampleId id = sampler.id(Split::train, first + i);
    line += fmt::format("{}[{},{},{}]", i ? "," : "", sampler.order().sources[static_cast<size_t>(id.source)].number,
                        id.epoch, id.index);
  }
  return line + "]}";
}

}  // namespace trainctl
