// lib/model/layers.h -- the three kinds of module: embedding, transformer block, head.
#pragma once

#include "model/families/families.h"
#include "model/model_config.h"
#include "model/module.h"

namespace trainctl {

// Rotary phases, shared by the blocks of a stage and made at the first bind.
class SharedRope {
 public:
  SharedRope(const RopeConfig& config, int64_t positions, int64_t head_dim)
      : config_(config), positions_(positions), head_dim_(head_dim) {}
  const RopeTable& table(Context& context);

 private:
  RopeConfig config_;
  int64_t positions_, head_dim_;
  RopeTable table_;
};

std::unique_ptr<Module> make_embedding(const ModelConfig& config, const Architecture& architecture);
std::unique_ptr<Module> make_block(const ModelConfig& config, const Architecture& architecture, int layer,
                                   std::shared_ptr<SharedRope> rope);
std::unique_ptr<Module> make_head(const ModelConfig& config, const Architecture& architecture);

// Normalisation with its parameters.
class Norm {
 public:
  Norm(const ModelConfig& config, NormKind kind, const std::string& prefix, bool inside_region = false);
  Tensor forward(Tape& tape, const Tensor& x) const;
  void parameters(std::vector<ParameterPtr*>& out);

 private:
  NormKind kind_;
  float eps_;
  ParameterPtr weight_, bias_;
};

ParameterSpec matrix_spec(std::string name, int64_t rows, int64_t cols, AxisUse row_axis, AxisUse col_axis, double std);
ParameterSpec vector_spec(std::string name, int64_t size, AxisUse axis, InitKind init);

// A dropout's place in the model: distinct for every (step, layer, branch).
DropoutKey dropout_key(const ForwardPass& pass, double probability, int layer, int branch, Span64 rows);

}  // namespace trainctl
