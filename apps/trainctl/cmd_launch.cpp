// apps/trainctl/cmd_launch.cpp -- `trainctl launch R`: plan, preflight, start the ranks, stay with them.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/build_info.h"
#include "base/error.h"
#include "base/units.h"
#include "cli.h"
#include "data/token_paths.h"
#include "launch/command.h"
#include "launch/launch_plan.h"
#include "launch/preflight.h"
#include "launch/run_directory.h"
#include "launch/supervise.h"
#include "launch_start.h"
#include "planner/plan.h"
#include "topology/discover.h"
#include "topology/hostlist.h"

namespace trainctl {
namespace {

// Without a file: this machine, not measured; inside a Slurm allocation, all of its nodes, taken to be like this one.
TopologyConfig topology_of(const LaunchArguments& arguments, const SlurmAllocation& slurm,
                           std::vector<std::string>& warnings) {
  if (!arguments.topology.empty()) return load_topology(arguments.topology);
  TopologyConfig topology = discover({.measure = false});
  if (slurm.hosts.empty() || arguments.request.launcher == "threads") return topology;
  topology.nodes.front().names = compress_hostlist(slurm.hosts);
  if (slurm.hosts.size() > 1)
    warnings.push_back("no --topology: the nodes of the allocation are taken to be like this one");
  return topology;
}

void find_data(const Recipe& recipe) {
  for (const DataSourceConfig& source : recipe.data.train) find_token_files(source.path);
}

// All checkpoints that may exist at once, the one being written included: f32 master weights and two moments.
int64_t checkpoint_bytes(const Plan& numbers) {
  constexpr int64_t kBytesPerParameter = 12;
  const CheckpointConfig& c = numbers.recipe.checkpoint;
  const auto every = [&numbers](int64_t steps) { return steps > 0 ? numbers.recipe.runtime.steps / steps : 0; };
  const int64_t saves = every(c.every_steps) + (c.at_end ? 1 : 0),
                kept = checked_add(c.keep, every(c.keep_every_steps));
  return checked_mul(checked_mul(numbers.parameters, kBytesPerParameter), std::min(checked_add(kept, 1), saves));
}

PreflightHooks hooks(const Plan& numbers) {
  return {.data = find_data,
          .memory =
              [&numbers](const LaunchPlan&) {
                return numbers.refused() ? numbers.verdict.reasons : std::vector<std::string>();
              },
          .checkpoint_bytes = [&numbers](const LaunchPlan&) { return checkpoint_bytes(numbers); }};
}

std::string describe(const LaunchPlan& plan, const Plan& numbers) {
  const ParallelismConfig& p = plan.job.recipe.parallelism;
  std::string text =
      fmt::format("{}: tensor_parallel {}{} x pipeline_parallel {} x data_parallel {}\n",
                  counted(plan.job.world_size, "rank"), p.tensor_parallel, p.sequence_parallel ? " (sequence)" : "",
                  p.pipeline_parallel, p.data_parallel.value.value_or(1));
  for (const HostPlace& place : plan.map.hosts)
    text += fmt::format("  {}: {} on {}\n", place.host.name,
                        place.num_ranks == 1
                            ? fmt::format("rank {}", place.first_rank)
                            : fmt::format("ranks {} to {}", place.first_rank, place.first_rank + place.num_ranks - 1),
                        counted(place.slots, "slot"));
  text += plan.binding + "\n";
  for (const std::string& reason : numbers.verdict.reasons) text += reason + "\n";
  return text;
}

// Missing data does not stop a dry run: it may be elsewhere. A plan that does not fit does.
void dry_run(const LaunchPlan& plan, const Plan& numbers, const Command& command) {
  try {
    find_data(plan.job.recipe);
  } catch (const Error& e) {
    print_warnings({e.what()});
  }
  const RunPaths paths{plan.job.run_dir};
  print_out(describe(plan, numbers));
  print_out("would write:\n");
  for (const auto& file : {paths.recipe(), paths.plan(), paths.launch()}) print_out("  " + file.string() + "\n");
  print_out("would run:\n  " + shell_line(command) + "\n");
  if (numbers.refused()) fail(ErrorKind::plan, numbers.verdict.reasons.front());
}

std::filesystem::path run_directory_of(const LaunchArguments& arguments, const std::string& name) {
  const std::filesystem::path given = arguments.run_dir;
  const auto now = std::chrono::system_clock::now();
  return std::filesystem::absolute(given.empty() ? default_run_directory(name, now, !arguments.dry_run) : given)
      .lexically_normal();
}

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// The step at which the attempt before this one met an infinity or a NaN; 0: it ended otherwise.
int64_t numeric_failure(const RunPaths& paths) {
  for (const RankFailure& failure : load_rank_failures(paths.errors()))
    if (error_kind_from_name(failure.kind) == ErrorKind::numeric) return failure.step;
  return 0;
}

void launch(const LaunchArguments& arguments) {
  check_start(arguments);
  const auto lookup = [](const char* variable) -> const char* { return std::getenv(variable); };
  const SlurmAllocation slurm = slurm_allocation(lookup);
  const LoadedRecipe recipe = load_recipe(arguments.recipe, arguments.overrides);
  std::vector<std::string> warnings;
  const TopologyConfig topology = topology_of(arguments, slurm, warnings);
  LaunchPlan plan = plan_launch(recipe, topology, slurm, arguments.request);
  plan.job.build_id = build_id();
  if (plan.job.resume != "auto" && plan.job.resume != "never")
    plan.job.resume = std::filesystem::weakly_canonical(plan.job.resume).string();  // one folder, one name
  plan.job.allow_intermediate = arguments.allow_intermediate;
  const std::optional<Job> earlier = earlier_job(arguments);
  plan.job.init_from = initial_weights(arguments, plan.job.recipe.model, earlier, warnings);
  plan.job.run_id = run_id(recipe.recipe.name, earlier);
  if (earlier) plan.job.seen = earlier->seen;
  check_lost_states(arguments, plan.job.seen);
  remember_resume(plan.job, arguments, earlier, warnings);
  warnings.insert(warnings.end(), plan.warnings.begin(), plan.warnings.end());

  const std::filesystem::path worker =
      arguments.worker.empty() ? default_worker() : std::filesystem::path(arguments.worker);
  print_warnings(warnings);
  check_resumed_path(arguments, plan.job);
  remember_skipped(plan.job, arguments, earlier);
  const Plan numbers = make_plan(
      recipe, {.topology = &topology, .ranks = plan.job.world_size, .oversubscribe = arguments.request.oversubscribe});
  if (!arguments.dry_run)
    preflight(plan, worker, arguments.run_dir.empty() ? "runs" : arguments.run_dir.c_str(), hooks(numbers));
  const std::filesystem::path root = run_directory_of(arguments, recipe.recipe.name);
  const RunPaths paths{root};
  plan.job.run_dir = root.string();
  const Command command = launch_command(plan, std::filesystem::absolute(worker), paths.launch(), host_traits());
  if (arguments.dry_run) {
    dry_run(plan, numbers, command);
    return;
  }
  const RunDirectory directory = open_run_directory(root, arguments.request.resume);
  if (directory.continues && earlier) {
    if (const std::string remark = recipe_file_remark(paths, earlier->recipe); !remark.empty())
      print_warnings({remark});
    for (const std::string& change : recipe_changes(earlier->recipe, plan.job.recipe))
      print_warnings({"the run continues with another recipe: " + change});
  }
  const EarlierRunFiles before(paths);
  const int64_t numeric_before = numeric_failure(paths);
  write_run_files(paths, plan.job, to_json(numbers).dump(2) + "\n");
  print_out(fmt::format("{}run directory {}\n", describe(plan, numbers), root.string()));
  const JobOutcome outcome =
      supervise(plan.job, command,
                {.live = ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0,
                 .live_columns = terminal_columns(),
                 .launcher_arguments = arguments.request.launcher_arguments,
                 .usable = [&paths, &plan] { return usable_states(paths, plan.job.run_id); },
                 .numeric_before = numeric_before,
                 .result =
                     [](std::string_view text) {
                       print_out(text);
                       std::fflush(stdout);
                     },
                 .diagnostic = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }});
  // A checkpoint that refused this recipe still belongs to the earlier one, or to no run here at all.
  if (outcome.exit_code == exit_code(ErrorKind::checkpoint) && outcome.steps_made == 0) before.put_back();
  if (outcome.exit_code != 0) throw ExitWith{outcome.exit_code};
}

}  // namespace

void add_launch_command(CLI::App& app) {
  auto a = std::make_shared<LaunchArguments>();
  const auto positive = whole_number(1, int64_t{1} << 24);
  CLI::App* cmd = app.add_subcommand("launch", "Train: plan, check, start the ranks and stay with them");
  cmd->add_option("recipe", a->recipe, "Recipe file (JSON)")->required();
  cmd->add_option("--topology", a->topology, "Topology file; default: this machine, or the Slurm allocation");
  cmd->add_option("--ranks", a->request.ranks, "Number of ranks; default: SLURM_NTASKS, else the fewest possible")
      ->transform(positive);
  cmd->add_option("--launcher", a->request.launcher, "What starts the ranks: mpirun, srun, or threads of one process")
      ->check(CLI::IsMember({"mpirun", "srun", "threads"}))
      ->capture_default_str();
  cmd->add_option("--run-dir", a->run_dir,
                  "Run directory; an earlier run in it is continued. "
                  "Default: runs/NAME/TIME");
  cmd->add_option(
         "--resume", a->request.resume,
         "auto (the newest usable checkpoint of the run directory), never, or a checkpoint folder: of the run, or "
         "from elsewhere while the run has no usable one")
      ->capture_default_str();
  cmd->add_option("--init-from", a->init_from,
                  "Start at step 0 from the weights of a checkpoint: of a run, or imported. A run that has checkpoints "
                  "of its own continues from them");
  cmd->add_flag("--allow-intermediate", a->allow_intermediate,
                "The state that --init-from or --resume names may hold infinities or NaNs");
  cmd->add_option(
         "--skip-batches", a->skip_batches,
         "With --resume CHECKPOINT: pass over this many global batches that would come after it. A plain relaunch "
         "that goes on from that checkpoint passes over them again; --resume without this option does not")
      ->transform(positive);
  cmd->add_flag("--oversubscribe", a->request.oversubscribe, "Allow more ranks than slots");
  cmd->add_option("--threads-per-rank", a->request.threads_per_rank,
                  "Compute threads; default: cores / ranks of a host")
      ->transform(whole_number(1, 4096));
  cmd->add_option("--bind", a->request.bind, "Bind each rank to its own cores: auto, none or core")
      ->check(CLI::IsMember({"auto", "none", "core"}))
      ->capture_default_str();
  cmd->add_option("--launcher-arg", a->request.launcher_arguments,
                  "One more argument for mpirun or srun; may be repeated")
      ->option_text("ARGUMENT")
      ->allow_extra_args(false)
      ->take_all();
  cmd->add_option("--worker", a->worker, "Worker program; default: trainctl_worker next to trainctl");
  cmd->add_flag("--dry-run", a->dry_run, "Print the exact command and files; start and write nothing");
  add_override_option(*cmd, a->overrides);
  add_examples(*cmd, {"trainctl launch recipes/llama_tiny_text.json --ranks 4 --oversubscribe",
                      "trainctl launch recipes/llama_tiny_text.json --launcher threads --set runtime.steps=20",
                      "trainctl launch recipes/llama_tiny_text.json --run-dir runs/a   # the same again continues it",
                      "trainctl launch recipes/llama_tiny_text.json --init-from runs/a",
                      "trainctl launch recipes/llama_tiny_text.json --run-dir runs/a "
                      "--resume runs/a/checkpoints/step-00000050 --skip-batches 3"});
  cmd->callback([a] { launch(*a); });
}

}  // namespace trainctl
