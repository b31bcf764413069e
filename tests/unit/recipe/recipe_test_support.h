// tests/unit/recipe/recipe_test_support.h -- a good recipe, and what is said about changed ones.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "recipe/recipe.h"
#include "support/catch.h"

namespace trainctl {

inline const std::string kGoodRecipe = R"({ "name": "good",
  "model": { "family": "llama", "layers": 8, "d_model": 64, "heads": 8, "kv_heads": 4, "d_ff": 128 },
  "data": { "train": [ { "path": "data/text" } ], "validation_fraction": 0.01, "sequence_tokens": 32 },
  "parallelism": { "tensor_parallel": 2, "pipeline_parallel": 2 },
  "optimizer": { "lr": 1e-3, "schedule": { "kind": "cosine", "warmup_steps": 20 } },
  "runtime": { "steps": 200, "micro_batch_size": 2, "global_batch_size": 16 } })";

inline const std::string kGoodGpt2 = R"({ "name": "good_gpt2",
  "model": { "family": "gpt2", "layers": 4, "d_model": 64, "heads": 4 },
  "data": { "train": [ { "path": "data/text" } ], "sequence_tokens": 32 },
  "optimizer": { "lr": 1e-3 },
  "runtime": { "steps": 200, "global_batch_size": 16 } })";

using Overrides = std::vector<std::string>;

inline LoadedRecipe load_good(const Overrides& overrides = {}, const std::string& text = kGoodRecipe) {
  return load_recipe_text(text, "r.json", overrides);
}

// The faults of load_recipe, one line each; "" when it is legal.
inline std::string faults_of(const Overrides& overrides, const std::string& text = kGoodRecipe) {
  try {
    load_good(overrides, text);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    return e.what();
  }
  return "";
}

inline int64_t count_lines(const std::string& text) {
  return text.empty() ? 0 : 1 + static_cast<int64_t>(std::count(text.begin(), text.end(), '\n'));
}

// The faults of resolve() in a world of `ranks`.
inline std::string world_faults(int64_t ranks, const Overrides& overrides, const std::string& text = kGoodRecipe) {
  return format_faults("r.json", resolve(load_good(overrides, text), ranks).faults);
}

inline Recipe resolved(int64_t ranks, const Overrides& overrides = {}, const std::string& text = kGoodRecipe) {
  const ResolveResult r = resolve(load_good(overrides, text), ranks);
  REQUIRE(format_faults("r.json", r.faults) == "");
  return r.recipe;
}

// "r.json:line:column" of what follows `before`, which occurs once in the ASCII `text`.
inline std::string place_after(const std::string& before, const std::string& text = kGoodRecipe) {
  const size_t at = text.find(before) + before.size();
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  const size_t start = text.rfind('\n', at - 1) + 1;  // npos + 1 is 0: the first line
  return "r.json:" + std::to_string(line) + ":" + std::to_string(at - start + 1);
}

// One fault, and it says all of `parts`.
inline void check_one_fault(const std::string& faults, const std::vector<std::string>& parts) {
  INFO(faults);
  CHECK(count_lines(faults) == 1);
  for (const std::string& part : parts) CHECK_THAT(faults, Catch::Contains(part));
}

}  // namespace trainctl
