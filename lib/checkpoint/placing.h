// lib/checkpoint/placing.h -- stored tensors into the local tensors of a rank, in host memory or on a device (inside
// the module: restore.h and restore_weights.h are for others).
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "device/device.h"
#include "tensor/catalog.h"

namespace trainctl {

struct Placement {
  const TensorRecord* from = nullptr;
  const StateEntry* to = nullptr;  // its local tensor has the dtype of `from`, or is f32 where that is bf16: widened
};

// `count` elements that were read as bf16 to the beginning of a buffer become f32; it has room for count * 4 bytes.
void widen_in_place(char* data, int64_t count);

// About so much host memory on the way to a device, or one larger tensor.
inline constexpr int64_t kBounceBytes = 64 << 20;

// Fills every local tensor with the elements of its box. In a world of several ranks collective, as reader.read_all; a
// device is filled in batches of stored tensors that are the same for every rank, whatever it holds of them.
void place_tensors(CheckpointReader& reader, const std::vector<Placement>& placements, Device& device,
                   const Agreement& ranks, int64_t bounce_bytes = kBounceBytes);

}  // namespace trainctl
