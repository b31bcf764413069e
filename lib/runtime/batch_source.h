// lib/runtime/batch_source.h -- where samples come from, by global sample number.
#pragma once

#include <cstdint>

namespace trainctl {

enum class SampleSplit : uint8_t { train, validation };

// Host buffers of `count` samples of S tokens each, row-major; document_start may be null.
struct SampleBuffers {
  int32_t* tokens = nullptr;
  int32_t* labels = nullptr;  // -1: not counted
  int32_t* positions = nullptr;
  int32_t* document_start = nullptr;  // index within the sequence
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills samples [first, first + count); a pure function of the sample number.
  virtual void fill(SampleSplit split, int64_t first, int64_t count, const SampleBuffers& out) = 0;
};

}  // namespace trainctl
