// apps/trainctl/cmd_accept.cpp -- `trainctl accept R --only checkpoint`: short runs that show that a recipe can be
// trusted.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "accept/checkpoint_drill.h"
#include "base/error.h"
#include "base/units.h"
#include "cli.h"
#include "launch/launch_plan.h"
#include "launch/run_directory.h"
#include "recipe/recipe.h"

namespace trainctl {
namespace {

struct AcceptArguments {
  std::string only, topology, launcher = "mpirun", worker, folder;
  DrillRequest drill;
  bool json = false;
};

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

void accept(AcceptArguments& a) {
  DrillRequest& drill = a.drill;
  drill.trainctl = this_program();
  drill.launch_arguments = {"--launcher", a.launcher};
  if (!a.topology.empty()) drill.launch_arguments.insert(drill.launch_arguments.end(), {"--topology", a.topology});
  if (!a.worker.empty()) drill.launch_arguments.insert(drill.launch_arguments.end(), {"--worker", a.worker});
  const std::string name = load_recipe(drill.recipe, drill.overrides).recipe.name;
  drill.folder =
      std::filesystem::absolute(
          a.folder.empty() ? default_run_directory(name + "-drill", std::chrono::system_clock::now(), /*claim=*/true)
                           : std::filesystem::path(a.folder))
          .lexically_normal();
  drill.progress = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  const DrillReport report = drill_checkpoints(drill);
  if (a.json) {
    auto checks = nlohmann::ordered_json::array();
    for (const DrillCheck& c : report.checks)
      checks.push_back({{"what", c.what}, {"passed", c.passed}, {"found", c.found}, {"advice", c.advice}});
    print_json({{"passed", report.passed()},
                {"layout", report.layout},
                {"other_layout", report.other_layout},
                {"checks", std::move(checks)},
                {"drilled", report.drilled.string()},
                {"folder", drill.folder.string()},
                {"seconds", report.seconds}});
  } else {
    print_out(fmt::format("{}: checkpoints {} in {}; {} and {}\n", drill.recipe.string(),
                          report.passed() ? "hold" : fmt::format("DO NOT HOLD ({})", report.failed()->what),
                          human_seconds(report.seconds), report.layout, report.other_layout));
    for (const DrillCheck& c : report.checks)
      print_out(fmt::format("  {:<6} {}: {}\n", c.passed ? "ok" : "FAILED", c.what, c.found));
    if (!report.drilled.empty()) print_out(fmt::format("  DRILLED: {}\n", report.drilled.string()));
  }
  if (const DrillCheck* failed = report.failed())
    fail(ErrorKind::checkpoint,
         fmt::format("the drill failed: {}: {}\nwhat to do: {}", failed->what, failed->found, failed->advice));
}

}  // namespace

void add_accept_command(CLI::App& app) {
  auto a = std::make_shared<AcceptArguments>();
  CLI::App* cmd = app.add_subcommand("accept", "Show with short runs that a recipe can be trusted on this machine");
  cmd->add_option("recipe", a->drill.recipe, "Recipe file (JSON)")->required();
  cmd->add_option("--only", a->only,
                  "What to show. checkpoint: train, kill a rank, resume in the same and in another layout, compare")
      ->required()
      ->check(CLI::IsMember({"checkpoint"}));
  cmd->add_option("--ranks", a->drill.ranks, "Number of ranks; default: the fewest possible")
      ->transform(whole_number(1, int64_t{1} << 24));
  cmd->add_option("--steps", a->drill.steps, "Steps of the uninterrupted run")
      ->transform(whole_number(4, 100000))
      ->capture_default_str();
  cmd->add_flag("--scaled-down", a->drill.scaled_down,
                "A smaller model of the same family: few layers, narrow heads, short sequences, a small batch");
  cmd->add_option("--folder", a->folder, "Where the drill's runs go; new or empty. Default: runs/NAME-drill/TIME");
  cmd->add_option("--topology", a->topology, "As of launch");
  cmd->add_option("--launcher", a->launcher, "As of launch")
      ->check(CLI::IsMember({"mpirun", "srun", "threads"}))
      ->capture_default_str();
  cmd->add_option("--worker", a->worker, "As of launch")->check(CLI::ExistingFile);
  cmd->add_flag("--json", a->json, "Machine-readable output");
  add_override_option(*cmd, a->drill.overrides);
  add_examples(*cmd, {"trainctl accept recipes/llama_tiny_text.json --only checkpoint --ranks 4 --scaled-down",
                      "trainctl accept recipes/llama_tiny_text.json --only checkpoint --launcher threads --steps 20"});
  cmd->callback([a] { accept(*a); });
}

}  // namespace trainctl
