// lib/optim/optimizer.cpp -- AdamW and SGD over flat runs of one weight-decay rule.
#include "optim/optimizer.h"

#include <fmt/format.h>

#include <set>

#include "parallel/apply_parallelism.h"

namespace trainctl {
namespace {

// The views of one run: master, gradient, and the compute weight when that is another dtype.
struct RunViews {
  Tensor master, grad, weight;
};
RunViews views_of(const ShardedModel& m, const FlatRun& run) {
  const Shape shape{run.range.size()};
  RunViews v{m.master.flat_slice(run.range.begin, shape), m.grads.flat_slice(run.range.begin, shape), {}};
  if (m.compute_dtype != DType::f32) v.weight = m.weights.flat_slice(run.range.begin, shape);
  return v;
}

Tensor make_state(ShardedModel& m) {
  Tensor state = m.context->empty({m.layout.elements}, DType::f32, MemoryCategory::optimizer);
  m.context->zero(state);
  return state;
}

class AdamWOptimizer final : public Optimizer {
 public:
  AdamWOptimizer(ShardedModel& model, const OptimizerConfig& config)
      : model_(model), config_(config), m_(make_state(model)), v_(make_state(model)) {}

  void step(const UpdateInputs& in) override {
    for (const FlatRun& run : model_.layout.runs) {
      const RunViews views = views_of(model_, run);
      const Shape shape{run.range.size()};
      model_.context->run(kernels::AdamW{.master = views.master,
                                         .m = m_.flat_slice(run.range.begin, shape),
                                         .v = v_.flat_slice(run.range.begin, shape),
                                         .weight = views.weight,
                                         .grad = views.grad,
                                         .lr = in.lr,
                                         .beta1 = config_.betas.at(0),
                                         .beta2 = config_.betas.at(1),
                                         .eps = config_.eps,
                                         .weight_decay = run.decay ? config_.weight_decay : 0.0,
                                         .grad_scale = in.grad_scale,
                                         .step = in.step});
    }
  }
  StateCatalog catalog() const override {
    StateCatalog all = flat_catalog(model_, m_, "exp_avg");
    for (StateEntry& e : flat_catalog(model_, v_, "exp_avg_sq")) all.push_back(std::move(e));
    return all;
  }

 private:
  ShardedModel& model_;
  OptimizerConfig config_;
  Tensor m_, v_;
};

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(ShardedModel& model, const OptimizerConfig& config) : model_(model), config_(config) {
    if (config.momentum != 0) buffer_ = make_state(model);
  }
  void step(const UpdateInputs& in) override {
    for (const FlatRun& run : model_.layout.runs) {
      const RunViews views = views_of(model_, run);
      model_.context->run(
          kernels::Sgd{.master = views.master,
                       .buffer = buffer_ ? buffer_.flat_slice(run.range.begin, {run.range.size()}) : Tensor(),
                       .weight = views.weight,
                       .grad = views.grad,
                       .lr = in.lr,
                       .momentum = config_.momentum,
                       .weight_decay = run.decay ? config_.weight_decay : 0.0,
                       .grad_scale = in.grad_scale});
    }
  }
  StateCatalog catalog() const override { return buffer_ ? flat_catalog(model_, buffer_, "momentum") : StateCatalog{}; }

 private:
  ShardedModel& model_;
  OptimizerConfig config_;
  Tensor buffer_;
};

}  // namespace

std::unique_ptr<Optimizer> build_optimizer(ShardedModel& model, const OptimizerConfig& config) {
  if (config.kind == "adamw") return std::make_unique<AdamWOptimizer>(model, config);
  if (config.kind == "sgd") return std::make_unique<SgdOptimizer>(model, config);
  fail(ErrorKind::config, fmt::format("optimizer.kind: \"{}\" is unknown; known: adamw, sgd", config.kind));
}

std::vector<DecayGroup> decay_groups(const Model& model, const OptimizerConfig& config) {
  DecayGroup decayed{config.weight_decay}, plain{0.0};
  std::set<std::string> seen;
  for (const auto& module : model.modules)
    for (const ParameterPtr* p : module->parameters()) {
      if (!seen.insert((*p)->spec.name).second) continue;
      DecayGroup& group = (*p)->spec.decay ? decayed : plain;
      ++group.tensors;
      group.elements += (*p)->spec.shape.numel();
    }
  return {decayed, plain};
}

}  // namespace trainctl
