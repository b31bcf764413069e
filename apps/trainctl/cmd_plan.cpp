// apps/trainctl/cmd_plan.cpp -- `trainctl plan R`: what a run will hold, send and compute; needs no MPI, no data files,
// and not the machine described.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli.h"
#include "data/token_paths.h"
#include "planner/compare.h"
#include "planner/plan.h"
#include "planner/text_table.h"
#include "recipe/job.h"

namespace trainctl {
namespace {

struct PlanArguments {
  std::string recipe, topology, against;
  std::optional<int64_t> ranks;
  std::vector<std::string> overrides;
  bool json = false, oversubscribe = false;
};

RunCounters load_counters(const std::string& run_dir) {
  const std::filesystem::path file = RunPaths{run_dir}.counters();
  std::string text;
  try {
    text = read_file(file);
  } catch (const Error& e) {
    fail(e.kind(), fmt::format("{}; a run writes it when it has ended its last step, so give the directory of a "
                               "finished run",
                               e.what()));
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) fail(ErrorKind::input, fmt::format("{} is not JSON", file.string()));
  try {
    return run_counters_from_json(json);
  } catch (const Error& e) {
    fail(e.kind(), fmt::format("{}: {}; a run writes it when it has ended its last step", file.string(), e.what()));
  }
}

// The data may be elsewhere, or not made yet: planning goes on.
void warn_about_data(const Recipe& recipe) {
  for (const DataSourceConfig& source : recipe.data.train) {
    try {
      find_token_files(source.path);
    } catch (const Error& error) {
      print_warnings({error.what()});
    }
  }
}

// A request that has no plan, for programs: the verdict alone.
void print_refusal(const Error& error) {
  std::vector<std::string> reasons;
  std::istringstream lines(error.what());
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) reasons.push_back(line);
  print_json({{"verdict", {{"fits", false}, {"reasons", reasons}}}});
}

void compare_with_run(const Plan& plan, const RunCounters& run, const PlanArguments& a) {
  const std::vector<ComparedQuantity> rows = compare(plan.counters, run);
  const bool equal = all_equal(rows);
  if (a.json)
    print_json({{"equal", equal}, {"quantities", to_json(rows)}});
  else
    print_out(fmt::format("plan of {} beside the run in {}\n", plan.recipe.name, cut_to(a.against, 60)) +
              to_text(rows) +
              (equal ? "equal: every byte, message and FLOP\n" : "NOT equal: the rows without \"=\"\n"));
  if (!equal) throw ExitWith{exit_code(ErrorKind::plan)};
}

Plan plan_or_refusal(const PlanArguments& a, const PlanRequest& request) {
  try {
    return make_plan(load_recipe(a.recipe, a.overrides), request);
  } catch (const Error& error) {
    if (a.json) print_refusal(error);
    throw;
  }
}

void plan_command(const PlanArguments& a) {
  std::optional<RunCounters> run;
  if (!a.against.empty()) run = load_counters(a.against);
  std::optional<TopologyConfig> topology;
  if (!a.topology.empty()) topology = load_topology(a.topology);
  std::optional<int64_t> ranks = a.ranks;
  if (run && !ranks) ranks = ranks_of(*run);
  const Plan plan = plan_or_refusal(
      a, {.topology = topology ? &*topology : nullptr, .ranks = ranks, .oversubscribe = a.oversubscribe});
  if (run) {
    compare_with_run(plan, *run, a);
    return;
  }
  warn_about_data(plan.recipe);
  if (a.json)
    print_json(to_json(plan));
  else
    print_out(to_text(plan));
  if (plan.refused()) fail(ErrorKind::plan, plan.verdict.reasons.front());
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto a = std::make_shared<PlanArguments>();
  CLI::App* cmd = app.add_subcommand(
      "plan",
      "Say before a run what it will hold, send and compute, rank by rank. Needs neither MPI nor data files nor the "
      "machine described. Exit code 2, after printing, when the plan does not fit; and with --against when plan and "
      "run differ");
  cmd->add_option("recipe", a->recipe, "Recipe file (JSON)")->required();
  cmd->add_option("--topology", a->topology, "Topology file; without it ranks are not placed and memory has no limit");
  cmd->add_option("--ranks", a->ranks, "Number of ranks; default: the fewest possible, or those of --against")
      ->transform(whole_number(1, int64_t{1} << 24));
  cmd->add_flag("--oversubscribe", a->oversubscribe, "Allow more ranks than slots");
  cmd->add_option("--against", a->against,
                  "Run directory: print its counters beside the plan's with the differences; exit code 0 when equal, "
                  "2 when not")
      ->type_name("RUN_DIR");
  add_override_option(*cmd, a->overrides);
  cmd->add_flag("--json", a->json, "Machine-readable output");
  add_examples(*cmd, {"trainctl plan recipes/llama_tiny_text.json --ranks 4",
                      "trainctl plan recipes/llama3_405b.json --topology recipes/topologies/h100_256nodes.json "
                      "--ranks 2048",
                      "trainctl plan recipes/llama_tiny_text.json --against runs/a   # what the run really counted"});
  cmd->callback([a] { plan_command(*a); });
}

}  // namespace trainctl
