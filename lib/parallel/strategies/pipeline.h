// lib/parallel/strategies/pipeline.h -- which modules a pipeline stage keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model.h"

namespace trainctl {

// Modules of stage `stage`: its layers by `layers_per_stage`, the embedding on the first stage, the head on the last.
std::vector<std::unique_ptr<Module>> take_stage(Model&& model, const std::vector<int64_t>& layers_per_stage, int stage);

}  // namespace trainctl
