// lib/runtime/runtime_config.cpp -- the keys of the "runtime" section.
#include "runtime/runtime_config.h"

namespace trainctl {
namespace {

constexpr double kMaxBatch = (int64_t{1} << 31) - 1;
constexpr double kMaxSteps = 1e12;

}  // namespace

void RuntimeConfig::describe(ConfigVisitor& v) {
  v.field("device", device, "what ranks compute on; cuda can be planned for, but not launched by this build",
          one_of({"cpu", "cuda"}).not_built({"gpu", "rocm", "hip", "xpu"}));
  v.field("seed", seed, "of initial weights, dropout, sample order and the validation split", at_least(0));
  v.field(
      "steps", steps, "optimizer steps",
      between(1, kMaxSteps).required().also_called({"train_iters", "max_steps", "num_steps", "iterations", "iters"}));
  v.field("micro_batch_size", micro_batch_size, "sequences per data rank per pass",
          between(1, kMaxBatch).also_called({"mbs", "per_device_train_batch_size", "train_micro_batch_size_per_gpu"}));
  v.field("micro_batches", micro_batches, "passes per step; global = micro_batch_size x micro_batches x data_parallel",
          between(1, kMaxBatch)
              .also_called({"gradient_accumulation_steps", "grad_accum", "accumulation", "num_micro_batches"}));
  v.field("global_batch_size", global_batch_size, "sequences per step",
          between(1, kMaxBatch).also_called({"gbs", "batch_size", "train_batch_size"}));
  v.field("precision", precision, "bf16: bf16 compute over f32 master weights, gradients and loss",
          one_of({"f32", "bf16"}).not_built({"fp16", "f16", "fp8", "f64", "tf32"}).also_called({"dtype"}));
  v.field("recompute", recompute, "full: keep only block inputs and run each block's forward again in the backward",
          one_of({"none", "full"})
              .not_built({"selective"})
              .also_called({"activation_checkpointing", "recompute_granularity"}));
  v.field("eval_every_steps", eval_every_steps, "steps between evaluations; 0: never",
          between(0, kMaxSteps).also_called({"eval_interval", "eval_steps", "val_check_interval"}));
  v.field("eval_batches", eval_batches, "global batches per evaluation",
          between(1, kMaxBatch).also_called({"eval_iters"}));
  v.field("watchdog_s", watchdog_s, "seconds without progress after which a run is ended as hung",
          above(0).also_called({"timeout", "watchdog", "distributed_timeout_minutes"}));
  v.field("startup_limit_s", startup_limit_s,
          "seconds from the launch until every rank has its watchdog; then the run is ended", above(0));
  v.field("threads_per_rank", threads_per_rank, "compute threads; 0: cores / local ranks",
          between(0, 65536).also_called({"num_threads", "omp_num_threads"}));
  v.field("log_layer_norms", log_layer_norms, "per-layer gradient norms in metrics.jsonl");
}

}  // namespace trainctl
