// lib/recipe/rules_model.cpp -- rules of the architecture.
#include <fmt/format.h>

#include "recipe/rules.h"

namespace trainctl {
namespace {

void check_heads(RuleBook& book) {
  const ModelConfig& m = book.recipe.model;
  if (book.usable({"model.heads", "model.kv_heads", "model.family"}) && m.kv_heads) {
    if (m.family == "gpt2" && *m.kv_heads != m.heads)
      book.fault("model.kv_heads", fmt::format("{} is not heads {}: gpt2 has as many key and value heads as query "
                                               "heads; leave kv_heads out",
                                               *m.kv_heads, m.heads));
    else if (m.heads % *m.kv_heads != 0)
      book.fault(
          "model.kv_heads",
          fmt::format("{} does not divide heads {}, and every key and value head serves the same number of query "
                      "heads; the nearest legal kv_heads: {}",
                      *m.kv_heads, m.heads, nearest_divisors(m.heads, *m.kv_heads)));
  }
  if (!book.usable({"model.heads", "model.d_model", "model.head_dim", "model.family"})) return;
  const bool divides = m.d_model % m.heads == 0;
  if (!m.head_dim && !divides) {
    book.fault(
        "model.heads",
        fmt::format("d_model {} / heads {} is not whole, so head_dim has no default; set heads to {}, d_model to "
                    "{}{}",
                    m.d_model, m.heads, nearest_divisors(m.d_model, m.heads), nearest_multiples(m.heads, m.d_model),
                    m.family == "gpt2" ? "" : ", or give head_dim"));
    return;
  }
  if (m.family == "gpt2") {
    if (m.head_dim && (!divides || *m.head_dim != m.d_model / m.heads))
      book.fault("model.head_dim", fmt::format("{} is not d_model {} / heads {}: gpt2 has no other head width; leave "
                                               "head_dim out",
                                               *m.head_dim, m.d_model, m.heads));
    return;
  }
  const int64_t head_dim = m.head_dim ? *m.head_dim : m.d_model / m.heads;
  if (head_dim % 2 != 0)
    book.fault(m.head_dim ? "model.head_dim" : "model.heads",
               fmt::format("{}{} is odd, and rotary embedding turns pairs of channels; the nearest legal head_dim: {}",
                           m.head_dim ? "" : "d_model / heads = ", head_dim,
                           head_dim == 1 ? "2" : fmt::format("{} or {}", head_dim - 1, head_dim + 1)));
}

void check_family(RuleBook& book) {
  const ModelConfig& m = book.recipe.model;
  if (!book.usable({"model.family"})) return;
  const bool gpt2 = m.family == "gpt2";
  if (book.usable({"model.activation"}) && m.activation && gpt2 == (*m.activation == "swiglu"))
    book.fault("model.activation",
               fmt::format("\"{}\" does not go with family \"{}\", which has {}", *m.activation, m.family,
                           gpt2 ? "\"gelu_tanh\" (the default) or \"gelu\"" : "\"swiglu\" only; leave activation out"));
  if (book.usable({"model.d_ff", "model.d_model"}) && !m.d_ff && !gpt2)
    book.fault("model.d_ff", fmt::format("required key \"d_ff\" is missing: family \"{}\" has no usual ratio; 8/3 "
                                         "d_model is common, which is about {}",
                                         m.family, (m.d_model * 8 / 3 + 31) / 32 * 32));
  if (gpt2 && book.usable({"model.max_positions", "data.sequence_tokens"}) && m.max_positions != 0 &&
      m.max_positions < book.recipe.data.sequence_tokens)
    book.fault(
        "model.max_positions",
        fmt::format("{} is less than data.sequence_tokens {}: gpt2 has no position beyond its table; set it to {} "
                    "or more, or to 0 for exactly that",
                    m.max_positions, book.recipe.data.sequence_tokens, book.recipe.data.sequence_tokens));
}

void check_rope(RuleBook& book) {
  if (!book.usable({"model.rope", "model.family", "model.rope.scaling"}) || book.recipe.model.family == "gpt2") return;
  const RopeConfig& r = book.recipe.model.rope;
  const RopeConfig usual;
  const bool none = r.scaling == "none", llama3 = r.scaling == "llama3", yarn = r.scaling == "yarn";
  const auto without_effect = [&](std::string_view key, bool set, bool used, std::string_view where) {
    if (set && !used && book.usable({fmt::format("model.rope.{}", key)}))
      book.fault(fmt::format("model.rope.{}", key),
                 fmt::format("has no effect with scaling \"{}\"; remove it, or set scaling to {}", r.scaling, where));
  };
  without_effect("factor", r.factor != usual.factor, !none, "\"linear\", \"llama3\" or \"yarn\"");
  without_effect("low_freq_factor", r.low_freq_factor != usual.low_freq_factor, llama3, "\"llama3\"");
  without_effect("high_freq_factor", r.high_freq_factor != usual.high_freq_factor, llama3, "\"llama3\"");
  without_effect("original_positions", r.original_positions != 0, llama3 || yarn, "\"llama3\" or \"yarn\"");
  without_effect("beta_fast", r.beta_fast != usual.beta_fast, yarn, "\"yarn\"");
  without_effect("beta_slow", r.beta_slow != usual.beta_slow, yarn, "\"yarn\"");
  without_effect("attention_factor", r.attention_factor.has_value(), yarn, "\"yarn\"");
  if ((llama3 || yarn) && r.original_positions == 0 && book.usable({"model.rope.original_positions"}))
    book.fault("model.rope.original_positions",
               fmt::format("scaling \"{}\" needs the context length before scaling here, e.g. 8192", r.scaling));
  if (llama3 && book.usable({"model.rope.low_freq_factor", "model.rope.high_freq_factor"}) &&
      r.low_freq_factor >= r.high_freq_factor)
    book.fault("model.rope.low_freq_factor",
               fmt::format("{} must be less than high_freq_factor {}", r.low_freq_factor, r.high_freq_factor));
  if (yarn && book.usable({"model.rope.beta_fast", "model.rope.beta_slow"}) && r.beta_slow >= r.beta_fast)
    book.fault("model.rope.beta_slow", fmt::format("{} must be less than beta_fast {}", r.beta_slow, r.beta_fast));
}

}  // namespace

void check_model(RuleBook& book) {
  check_heads(book);
  check_family(book);
  check_rope(book);
}

}  // namespace trainctl
