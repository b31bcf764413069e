// lib/model/model.cpp -- a model is an embedding, blocks and a head.
#include "model/model.h"

#include <set>

#include "base/error.h"
#include "model/layers.h"

namespace trainctl {

Model build_model(const ModelConfig& config) {
  ensure(config.kv_heads && config.head_dim && config.d_ff && config.vocab.value && config.max_positions > 0,
         "build_model takes a resolved model section");
  const Architecture architecture = architecture_of(config);
  Model model;
  model.config = config;
  std::shared_ptr<SharedRope> rope;
  if (architecture.rotary) rope = std::make_shared<SharedRope>(config.rope, config.max_positions, *config.head_dim);
  model.modules.push_back(make_embedding(config, architecture));
  for (int layer = 0; layer < config.layers; ++layer)
    model.modules.push_back(make_block(config, architecture, layer, rope));
  model.modules.push_back(make_head(config, architecture));
  return model;
}

int64_t parameter_count(const Model& model) {
  int64_t total = 0;
  std::set<std::string> seen;
  for (const auto& module : model.modules)
    for (const ParameterPtr* p : module->parameters())
      if (seen.insert((*p)->spec.name).second) total += (*p)->spec.shape.numel();
  return total;
}

}  // namespace trainctl
