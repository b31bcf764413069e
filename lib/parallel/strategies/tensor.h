// lib/parallel/strategies/tensor.h -- tensor and sequence parallelism: fills the regions and the vocabulary reducer.
#pragma once

#include "comm/process_group.h"
#include "model/module.h"

namespace trainctl {

// Replaces every region and vocabulary reducer of `module`. Nothing to do when the group has one rank.
void apply_tensor_parallelism(Module& module, ProcessGroup& group, bool sequence_parallel);

}  // namespace trainctl
