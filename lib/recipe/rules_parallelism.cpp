// lib/recipe/rules_parallelism.cpp -- rules of the layout that need no world size.
#include <fmt/format.h>

#include <numeric>

#include "base/units.h"
#include "recipe/layouts.h"
#include "recipe/rules.h"
#include "recipe/stage_split.h"

namespace trainctl {
namespace {

void check_not_built(RuleBook& book) {
  const ParallelismConfig& p = book.recipe.parallelism;
  const auto only_one = [&](const char* key, int64_t degree, const char* what) {
    if (degree > 1 && book.usable({fmt::format("parallelism.{}", key)}))
      book.fault(fmt::format("parallelism.{}", key),
                 fmt::format("{}: {} is not in this build; the only legal value is 1", degree, what));
  };
  only_one("context_parallel", p.context_parallel, "context parallelism");
  only_one("expert_parallel", p.expert_parallel, "expert parallelism");
  if (p.zero_stage > 0 && book.usable({"parallelism.zero_stage"}))
    book.fault("parallelism.zero_stage",
               fmt::format("{}: sharding of {} over data ranks (ZeRO) is not in this build; the only legal value is 0",
                           p.zero_stage,
                           p.zero_stage == 1   ? "optimizer states"
                           : p.zero_stage == 2 ? "optimizer states and gradients"
                                               : "optimizer states, gradients and weights"));
}

void check_tensor(RuleBook& book) {
  const ParallelismConfig& p = book.recipe.parallelism;
  const ModelConfig& m = book.recipe.model;
  if (!book.usable({"parallelism.tensor_parallel"})) return;
  const auto at_most = [&](const char* key, int64_t size, const char* what) {
    if (p.tensor_parallel > size)
      book.fault("parallelism.tensor_parallel",
                 fmt::format("{} is more than {} {}, so some ranks would hold no {}; the nearest legal value is {}",
                             p.tensor_parallel, key, size, what, size));
  };
  if (book.usable({"model.heads"})) at_most("model.heads", m.heads, "head");
  if (book.usable({"model.d_ff", "model.d_model"}) && (m.d_ff || m.family == "gpt2"))
    at_most("model.d_ff", m.d_ff.value_or(4 * m.d_model), "channel of the feed-forward block");
  if (book.usable({"model.vocab", "data.tokenizer.kind"}))
    at_most("model.vocab", m.vocab.value.value_or(tokenizer_vocab(book.recipe.data.tokenizer)),
            "token of the vocabulary");
  if (p.sequence_parallel && p.tensor_parallel == 1 && book.usable({"parallelism.sequence_parallel"}))
    book.fault(
        "parallelism.sequence_parallel",
        "true has no effect with tensor_parallel 1: it shards activations over the tensor ranks; set it to false, "
        "or tensor_parallel to 2 or more");
}

void check_pipeline(RuleBook& book) {
  const ParallelismConfig& p = book.recipe.parallelism;
  const int64_t layers = book.recipe.model.layers;
  if (!book.usable({"model.layers", "parallelism.pipeline_parallel"})) return;
  if (p.pipeline_parallel > layers) {
    book.fault(
        "parallelism.pipeline_parallel",
        fmt::format("{} is more than model.layers {}, so some stages would hold no layer; the nearest legal value "
                    "is {}",
                    p.pipeline_parallel, layers, layers));
    return;
  }
  if (p.pipeline_layers.empty() || !book.usable({"parallelism.pipeline_layers"})) return;
  for (size_t i = 0; i < p.pipeline_layers.size(); ++i)
    if (!book.usable({fmt::format("parallelism.pipeline_layers[{}]", i)})) return;
  std::string sum;
  int64_t total = 0;
  for (const int64_t n : p.pipeline_layers) {
    sum += fmt::format("{}{}", sum.empty() ? "" : " + ", n);
    total += n;
  }
  std::string why;
  if (static_cast<int64_t>(p.pipeline_layers.size()) != p.pipeline_parallel)
    why = fmt::format("{} for {} (pipeline_parallel)", counted(std::ssize(p.pipeline_layers), "entry", "entries"),
                      counted(p.pipeline_parallel, "stage"));
  if (total != layers)
    why += fmt::format("{}the sum {} = {} is not model.layers {}", why.empty() ? "" : ", and ", sum, total, layers);
  if (why.empty()) return;
  std::string balanced;
  for (const int64_t n : balance_stages({}, layers, p.pipeline_parallel))
    balanced += fmt::format("{}{}", balanced.empty() ? "" : ", ", n);
  book.fault("parallelism.pipeline_layers",
             fmt::format("{}; a legal split is [{}], and [] balances by cost", why, balanced));
}

void check_order(RuleBook& book) {
  if (!book.usable({"parallelism.order"})) return;
  const std::string& order = book.recipe.parallelism.order;
  std::vector<std::string> axes = {"tp", "cp", "ep", "dp", "pp"}, given;
  for (std::string_view rest = order;;) {
    const std::string_view axis = rest.substr(0, rest.find('-'));
    given.emplace_back(axis);
    if (axis.size() == rest.size()) break;
    rest.remove_prefix(axis.size() + 1);
  }
  // What was given, without doubles and strangers, then what is missing: the nearest legal order.
  std::string why, legal;
  const auto add = [&](std::string_view axis) { legal += fmt::format("{}{}", legal.empty() ? "" : "-", axis); };
  for (size_t i = 0; i < given.size(); ++i) {
    const bool known = std::find(axes.begin(), axes.end(), given[i]) != axes.end();
    const bool first =
        std::find(given.begin(), given.end(), given[i]) == given.begin() + static_cast<std::ptrdiff_t>(i);
    if (!known) why += fmt::format("{}{} is no axis", why.empty() ? "" : ", ", in_quotes(clipped(given[i])));
    if (known && !first) why += fmt::format("{}{} comes twice", why.empty() ? "" : ", ", given[i]);
    if (known && first) add(given[i]);
  }
  for (const std::string& axis : axes)
    if (std::find(given.begin(), given.end(), axis) == given.end()) {
      why += fmt::format("{}{} is missing", why.empty() ? "" : ", ", axis);
      add(axis);
    }
  if (!why.empty())
    book.fault(
        "parallelism.order",
        fmt::format("{} must name each of tp, cp, ep, dp, pp once, joined by \"-\", fastest varying first: {}; the "
                    "nearest legal order is \"{}\"",
                    in_quotes(clipped(order)), why, legal));
}

}  // namespace

void check_parallelism(RuleBook& book) {
  check_not_built(book);
  check_tensor(book);
  check_pipeline(book);
  check_order(book);
}

}  // namespace trainctl
