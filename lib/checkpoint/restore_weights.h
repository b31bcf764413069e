// lib/checkpoint/restore_weights.h -- weights alone, out of a checkpoint of any kind, layout and precision.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "device/device.h"
#include "tensor/catalog.h"

namespace trainctl {

struct WeightShape {
  std::string name;
  Shape shape;  // logical
};

// The stored f32 master of a weight where there is one, else the weight itself; null when neither is there.
const TensorRecord* best_weight(const CheckpointReader& reader, const std::string& name);

// All elements of best_weight of each name, one after the other, at the beginning of `to`, which grows where it must.
// Returns their dtype: bf16 where all are, else f32, to which bf16 is widened, exactly. Every name must be there, as
// f32 or bf16. Throws Error{checkpoint} as CheckpointReader::read.
DType read_weights(CheckpointReader& reader, const std::vector<std::string>& names, std::vector<char>& to);

// What keeps a model of exactly these weights from starting with those of the checkpoint: "\n  <name>: <what>" per
// missing, unexpected and mis-shaped one; "" when they are the same set.
std::string weight_faults(const CheckpointReader& reader, const std::vector<WeightShape>& weights);

// Overwrites every local tensor of `catalog` (f32) with the elements of its box: of the stored f32 master where there
// is one, else of the stored weight; a bf16 one is widened, which is exact. Throws Error{checkpoint} naming the tensor;
// the catalog's tensors may then be partly overwritten and must not be used. Collective as restore_catalog.
void restore_weights(CheckpointReader& reader, const StateCatalog& catalog, Device& device,
                     const Agreement& ranks = {});

}  // namespace trainctl
