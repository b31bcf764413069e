// lib/model/model_flops.cpp -- the published formula behind MFU.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "model/families/families.h"
#include "model/model.h"

namespace trainctl {

int64_t model_flops(const ModelConfig& config, int64_t sequences, int64_t sequence_tokens) {
  const int64_t head_dim = *config.head_dim, q_width = config.heads * head_dim, kv_width = *config.kv_heads * head_dim;
  const bool gated = architecture_of(config).gated;
  const int64_t attention_weights = config.d_model * (q_width + 2 * kv_width) + q_width * config.d_model;
  const int64_t ffn_weights = (gated ? 3 : 2) * config.d_model * *config.d_ff;
  const int64_t head_weights = config.d_model * *config.vocab.value;
  const int64_t per_token = 2 * (config.layers * (attention_weights + ffn_weights) + head_weights);
  const int64_t pairs = sequence_tokens * (sequence_tokens + 1) / 2;
  const int64_t per_sequence =
      checked_add(checked_mul(per_token, sequence_tokens), checked_mul(4 * config.layers * q_width, pairs));
  const int64_t most = std::numeric_limits<int64_t>::max() / 3 / std::max<int64_t>(per_sequence, 1);
  if (sequences > most)
    fail(ErrorKind::plan, fmt::format("a step of {} sequences of {} tokens is more FLOPs of this model than a 64-bit "
                                      "counter holds; the largest runtime.global_batch_size is {}",
                                      sequences, sequence_tokens, most));
  return 3 * per_sequence * sequences;
}

}  // namespace trainctl
