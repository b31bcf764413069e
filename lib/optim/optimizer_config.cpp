// lib/optim/optimizer_config.cpp -- the keys of the "optimizer" section.
#include "optim/optimizer_config.h"

namespace trainctl {
namespace {

constexpr double kMaxSteps = 1e12;

}  // namespace

void ScheduleConfig::describe(ConfigVisitor& v) {
  v.field("kind", kind, "shape of the learning rate after the warm-up",
          one_of({"constant", "linear", "cosine", "wsd"}).also_called({"lr_decay_style", "lr_scheduler_type"}));
  v.field("warmup_steps", warmup_steps, "steps over which the learning rate rises linearly from 0",
          between(0, kMaxSteps).also_called({"warmup", "lr_warmup_iters", "warmup_iters"}));
  v.field("decay_steps", decay_steps,
          "linear, cosine: the step at which the decay ends (0: runtime.steps); wsd: length of the final decay",
          between(0, kMaxSteps).also_called({"lr_decay_iters", "lr_decay_iter"}));
  v.field("min_lr_ratio", min_lr_ratio, "learning rate at the end of the decay, as a fraction of lr",
          between(0, 1).also_called({"min_lr", "lr_min_ratio"}));
}

void OptimizerConfig::describe(ConfigVisitor& v) {
  v.field("kind", kind, "update rule",
          one_of({"adamw", "sgd"})
              .not_built({"adam", "lion", "muon", "adafactor", "lamb", "sophia", "shampoo"})
              .also_called({"type", "optim", "optimizer"}));
  v.field("lr", lr, "peak learning rate", above(0).required().also_called({"learning_rate", "max_lr", "base_lr"}));
  v.field("betas", betas, "adamw: decay of the first and of the second moment",
          from_to_below(0, 1).with_length(2).also_called({"beta1", "beta2", "adam_beta1", "adam_beta2", "beta"}));
  v.field("eps", eps, "adamw: added to the root of the second moment",
          above(0).also_called({"epsilon", "adam_epsilon", "adam_eps"}));
  v.field("momentum", momentum, "sgd: decay of the velocity", from_to_below(0, 1));
  v.field("weight_decay", weight_decay, "decoupled decay of matrices and embeddings; never of norms and biases",
          at_least(0).also_called({"wd"}));
  v.field("clip_grad_norm", clip_grad_norm, "largest global gradient norm; 0: no clipping",
          at_least(0).also_called({"clip_grad", "max_grad_norm", "grad_clip", "gradient_clipping"}));
  v.field("schedule", schedule, "learning rate over the steps", Rule{}.also_called({"scheduler", "lr_schedule"}));
}

}  // namespace trainctl
