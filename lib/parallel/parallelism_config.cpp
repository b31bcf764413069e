// lib/parallel/parallelism_config.cpp -- the keys of the "parallelism" section.
#include "parallel/parallelism_config.h"

namespace trainctl {
namespace {

constexpr double kMaxDegree = 1 << 20;

}  // namespace

void ParallelismConfig::describe(ConfigVisitor& v) {
  v.field("tensor_parallel", tensor_parallel, "ranks that share each matrix",
          between(1, kMaxDegree).also_called({"tp", "tensor_model_parallel_size", "tensor_parallel_size", "tp_size"}));
  v.field("sequence_parallel", sequence_parallel,
          "shard activations outside tensor regions along tokens, over the tensor ranks; needs tensor_parallel > 1",
          Rule{}.also_called({"sp"}));
  v.field("pipeline_parallel", pipeline_parallel, "stages the layers are cut into",
          between(1, kMaxDegree)
              .also_called({"pp", "pipeline_model_parallel_size", "pipeline_parallel_size", "pp_size", "stages"}));
  v.field("context_parallel", context_parallel, "ranks that share each sequence; this build has 1 only",
          between(1, kMaxDegree).also_called({"cp", "context_parallel_size", "cp_size"}));
  v.field("expert_parallel", expert_parallel,
          "ranks that share the experts; divides the data ranks; this build has 1 only",
          between(1, kMaxDegree).also_called({"ep", "expert_model_parallel_size", "expert_parallel_size", "ep_size"}));
  v.field("data_parallel", data_parallel,
          "replicas that see different data; \"fill\": world size / (tensor x context x pipeline)",
          between(1, kMaxDegree).with_word("fill").also_called({"dp", "data_parallel_size", "dp_size"}));
  v.field("zero_stage", zero_stage, "what data ranks shard: 0 nothing; this build has 0 only",
          between(0, 3).also_called({"zero", "zero_optimization"}));
  v.field("pipeline_schedule", pipeline_schedule, "order of forward and backward passes of the stages",
          one_of({"gpipe", "1f1b"}).not_built({"interleaved", "interleaved_1f1b", "zb", "zero_bubble", "dualpipe"}));
  v.field("pipeline_layers", pipeline_layers, "layers per stage, first stage first; empty: balanced by cost",
          between(1, 100000).also_called({"pipeline_split", "stage_layers", "layers_per_stage"}));
  v.field("order", order, "mesh axes, fastest varying first", Rule{}.also_called({"rank_order", "mesh_order"}));
  v.field("grad_reduce_dtype", grad_reduce_dtype, "gradients on the wire and in the buckets",
          one_of({"f32"}).not_built({"bf16", "fp16"}));
  v.field("overlap_grad_reduce", overlap_grad_reduce, "reduce gradient buckets while the backward runs",
          Rule{}.also_called({"overlap"}));
  v.field("bucket_bytes", bucket_bytes, "smallest gradient bucket",
          between(1, 1LL << 40).also_called({"bucket_size", "ddp_bucket_size"}));
  v.field("message_chunk_bytes", message_chunk_bytes, "collectives move at most this much per message",
          between(1, (1LL << 31) - 1));
}

}  // namespace trainctl
