// lib/parallel/flat_layout.h -- where each shard lies in a rank's flat buffers (weights, gradients, optimizer states).
#pragma once

#include <vector>

#include "model/module.h"

namespace trainctl {

struct FlatRun {  // neighbouring shards with one weight-decay rule
  Span64 range;
  bool decay = false;
};

struct FlatLayout {
  int64_t elements = 0;
  std::vector<ParameterPtr> parameters;  // distinct, in buffer order
  std::vector<Span64> module_range;      // per module of the stage; gaps belong to the module before them
  std::vector<FlatRun> runs;             // cover [0, elements)
};

// Sets flat_offset of every parameter of `modules`, whose boxes are set. Modules follow one another, so a run of
// modules is one run of elements. Every shard starts at a multiple of 16 elements, but a stacked one, which continues
// the one before it. A parameter that two modules share lies with the first.
FlatLayout lay_out(std::vector<std::unique_ptr<Module>>& modules);

}  // namespace trainctl
