// apps/trainctl/cmd_check.cpp -- `trainctl check R`: every fault of a recipe at once; needs no MPI, no data, no
// machine.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/config_io.h"
#include "base/error.h"
#include "base/units.h"
#include "cli.h"
#include "recipe/provenance.h"
#include "recipe/recipe.h"

namespace trainctl {
namespace {

struct CheckOptions {
  std::string recipe;
  std::optional<int64_t> ranks;
  std::vector<std::string> overrides;
  bool json = false, provenance = false;
};

// Every message line of an Error{config}, one per fault.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void check(const CheckOptions& options) {
  const LoadedRecipe loaded = load_recipe(options.recipe, options.overrides);
  const int64_t ranks = options.ranks.value_or(smallest_world(loaded.recipe));
  const ResolveResult resolved = resolve(loaded, ranks);
  refuse_faults(loaded.source.source, resolved.faults);
  if (!options.json) print_warnings(resolved.warnings);
  if (options.provenance && !options.json) {
    for (const KeyOrigin& key : key_origins(loaded, resolved.recipe))
      print_out(fmt::format("{} = {}  ({})\n", key.path, key.value, key.origin));
    return;
  }
  if (options.json) {
    auto origins = nlohmann::ordered_json::object();
    if (options.provenance)
      for (const KeyOrigin& key : key_origins(loaded, resolved.recipe)) origins[key.path] = key.origin;
    print_json({{"ok", true},
                {"faults", nlohmann::ordered_json::array()},
                {"warnings", resolved.warnings},
                {"ranks", ranks},
                {"overrides", loaded.overrides},
                {"resolved", write_config(resolved.recipe)},
                {"provenance", std::move(origins)}});
    return;
  }
  const Recipe& r = resolved.recipe;
  print_out(fmt::format("{}: no faults{}\n", options.recipe,
                        options.ranks ? " on " + counted(ranks, "rank") : std::string()));
  print_out(fmt::format("  {}: {} model, {}, d_model {}, {}\n", r.name, r.model.family,
                        counted(r.model.layers, "layer"), r.model.d_model, counted(r.model.heads, "head")));
  print_out(fmt::format(
      "  smallest world {}: tensor_parallel {} x pipeline_parallel {} x context_parallel {}"
      " x data_parallel {}\n",
      counted(smallest_world(loaded.recipe), "rank"), r.parallelism.tensor_parallel, r.parallelism.pipeline_parallel,
      r.parallelism.context_parallel, r.parallelism.data_parallel.value.value_or(1)));
  for (const std::string& expression : loaded.overrides) print_out(fmt::format("  --set {}\n", expression));
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* cmd = app.add_subcommand("check", "List every fault of a recipe");
  cmd->add_option("recipe", options->recipe, "Recipe file (JSON)")->required();
  cmd->add_option("--ranks", options->ranks, "Also check the rules of a world of this size")
      ->transform(whole_number(1, int64_t{1} << 24));
  add_override_option(*cmd, options->overrides);
  cmd->add_flag("--provenance", options->provenance,
                "Print every resolved value with where it came from: file and line, --set, default, or derived");
  cmd->add_flag("--json", options->json, "Machine-readable output");
  add_examples(*cmd, {"trainctl check recipes/llama_tiny_text.json",
                      "trainctl check recipes/llama_tiny_text.json --provenance --set optimizer.lr=3e-4",
                      "trainctl check recipes/llama_tiny_text.json --ranks 8 --set optimizer.lr=3e-4"});
  cmd->callback([options] {
    try {
      check(*options);
    } catch (const Error& e) {
      if (options->json) print_json({{"ok", false}, {"kind", name(e.kind())}, {"faults", lines_of(e.what())}});
      throw;
    }
  });
}

}  // namespace trainctl
