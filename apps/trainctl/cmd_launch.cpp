// apps/trainctl/cmd_launch.cpp -- `trainctl launch R`: plan, preflight, start the ranks, stay with them.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/build_info.h"
#include "base/error.h"
#include "base/units.h"
#include "checkpoint/scan.h"
#include "cli.h"
#include "data/token_paths.h"
#include "launch/command.h"
#include "launch/launch_plan.h"
#include "launch/preflight.h"
#include "launch/run_directory.h"
#include "launch/supervise.h"
#include "planner/plan.h"
#include "topology/discover.h"
#include "topology/hostlist.h"
#include "trainer/initial_weights.h"

namespace trainctl {
namespace {

struct LaunchArguments {
  std::string recipe, topology, run_dir, worker, init_from;
  bool allow_intermediate = false;
  int64_t skip_batches = 0;
  LaunchRequest request;
  std::vector<std::string> overrides;
  bool dry_run = false;
};

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
  return checked_mul(checked_mul(numbers.parameters, kBytesPerParameter), numbers.recipe.checkpoint.keep + 1);
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

std::string earlier_recipe_text(const RunPaths& paths) {
  return std::filesystem::exists(paths.recipe()) ? read_file(paths.recipe()) : std::string();
}

// What `--resume auto` would take; "" when there is none.
std::string newest_checkpoint(const RunPaths& paths) {
  for (const CheckpointInfo& info : scan_checkpoints(paths.checkpoints()))
    if (info.state == CheckpointState::usable && info.kind == "training") return info.folder.string();
  return {};
}

bool is_path(const std::string& resume) { return resume != "auto" && resume != "never"; }

void check_start(const LaunchArguments& a) {
  const bool resume_path = is_path(a.request.resume);
  if (!a.init_from.empty() && resume_path)
    fail(ErrorKind::usage,
         fmt::format("--init-from {} and --resume {} contradict each other: the first starts at step 0 "
                     "from weights alone, the second goes on with a whole state; leave one out",
                     a.init_from, a.request.resume));
  if (a.allow_intermediate && a.init_from.empty() && !resume_path)
    fail(ErrorKind::usage,
         "--allow-intermediate says that one named state may be used although it holds infinities or "
         "NaNs; it goes with --init-from or --resume PATH");
  std::error_code ignored;
  const bool absent = resume_path && !std::filesystem::exists(a.request.resume, ignored);  // that is told elsewhere
  if (a.skip_batches > 0 && !absent && (!resume_path || !is_checkpoint_folder(a.request.resume)))
    fail(
        ErrorKind::usage,
        fmt::format("--skip-batches {}: batches are skipped after one checkpoint, so that the same command given twice "
                    "does not skip twice; name it: --resume RUN_DIR/checkpoints/step-00000100 (--resume is {})",
                    a.skip_batches, a.request.resume));
}

// launch.json of the earlier run in the run directory; empty when there is none, or one of another version: then the
// run directory's own checks have the say.
std::optional<Job> earlier_job(const LaunchArguments& a) {
  const RunPaths paths{a.run_dir};
  if (a.run_dir.empty() || !std::filesystem::exists(paths.launch())) return std::nullopt;
  try {
    return load_job(paths.launch());
  } catch (const Error&) {
    return Job{};
  }
}

// As long as a run has saved nothing, going on with it means going on from the state elsewhere that it was told to:
// never afresh.
void remember_resume(LaunchPlan& plan, const LaunchArguments& a, const std::optional<Job>& earlier,
                     std::vector<std::string>& warnings) {
  if (a.request.resume != "auto" || !earlier || !is_path(earlier->resume)) return;
  const auto outside = std::filesystem::path(earlier->resume).lexically_relative(std::filesystem::absolute(a.run_dir));
  if (!outside.string().starts_with("..")) return;
  for (const CheckpointInfo& info : scan_checkpoints(RunPaths{a.run_dir}.checkpoints(), Look::glance))
    if (info.state != CheckpointState::incomplete) return;
  plan.job.resume = earlier->resume;
  plan.job.allow_intermediate = earlier->allow_intermediate;
  warnings.push_back(fmt::format("the run has no checkpoint of its own yet and goes on from {}, as it was told before",
                                 earlier->resume));
}

// What --skip-batches asks for, or asked for when the run was last told from where to go on.
SkipBatches skipped_batches(const LaunchArguments& a, const Job& job, const std::optional<Job>& earlier) {
  if (a.skip_batches == 0) return a.request.resume == "auto" && earlier ? earlier->skip : SkipBatches{};
  const CheckpointInfo info = inspect_folder(job.resume);
  if (info.state != CheckpointState::usable)
    fail(ErrorKind::checkpoint, fmt::format("--resume {}: {}", job.resume, info.reason));
  return {a.skip_batches, checked_mul(a.skip_batches, job.recipe.runtime.global_batch_size.value()),
          info.manifest_sha256, info.step};
}

// A run remembers what it started from: as long as it has no checkpoint, going on with it means starting from there
// again.
InitFrom initial_weights(const LaunchArguments& a, const ModelConfig& model, const std::optional<Job>& earlier_run) {
  if (!earlier_run)
    return a.init_from.empty() ? InitFrom{} : choose_initial_weights(a.init_from, a.allow_intermediate, model);
  const InitFrom& earlier = earlier_run->init_from;
  if (a.init_from.empty()) return earlier;
  if (earlier.folder.empty())
    fail(ErrorKind::usage, fmt::format("--init-from {}: the run in {} did not start from other weights, and continues "
                                       "with its own; choose another --run-dir to start a new run",
                                       a.init_from, a.run_dir));
  const std::string asked = std::filesystem::absolute(a.init_from).lexically_normal().string();
  if (asked == earlier.asked || asked == earlier.folder) return earlier;  // it need not be there any more
  const InitFrom now = choose_initial_weights(a.init_from, a.allow_intermediate, model);
  if (now.manifest_sha256 != earlier.manifest_sha256)
    fail(ErrorKind::usage, fmt::format("--init-from {} is another checkpoint than the one that the run in {} started "
                                       "from, {}; choose another --run-dir to start a new run",
                                       a.init_from, a.run_dir, earlier.folder));
  return earlier;
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
    plan.job.resume = std::filesystem::absolute(plan.job.resume).lexically_normal().string();
  plan.job.allow_intermediate = arguments.allow_intermediate;
  const std::optional<Job> earlier = earlier_job(arguments);
  plan.job.init_from = initial_weights(arguments, plan.job.recipe.model, earlier);
  remember_resume(plan, arguments, earlier, warnings);
  warnings.insert(warnings.end(), plan.warnings.begin(), plan.warnings.end());

  const std::filesystem::path worker =
      arguments.worker.empty() ? default_worker() : std::filesystem::path(arguments.worker);
  print_warnings(warnings);
  const std::string& from = is_path(arguments.request.resume) ? arguments.request.resume : plan.job.resume;
  check_resume(from, [&from] { return what_is_there_instead(from); });
  plan.job.skip = skipped_batches(arguments, plan.job, earlier);
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
  if (directory.continues)
    for (const std::string& change : recipe_changes(paths, plan.job.recipe))
      print_warnings({"the run continues with another recipe: " + change});
  const std::string earlier_recipe = directory.continues ? earlier_recipe_text(paths) : std::string();
  write_run_files(paths, plan.job, to_json(numbers).dump(2) + "\n");
  print_out(fmt::format("{}run directory {}\n", describe(plan, numbers), root.string()));
  const JobOutcome outcome =
      supervise(plan.job, command,
                {.live = ::isatty(STDOUT_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0,
                 .live_columns = terminal_columns(),
                 .launcher_arguments = arguments.request.launcher_arguments,
                 .newest_checkpoint = [&paths] { return newest_checkpoint(paths); },
                 .result =
                     [](std::string_view text) {
                       print_out(text);
                       std::fflush(stdout);
                     },
                 .diagnostic = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }});
  // A checkpoint that refused this recipe still belongs to the earlier one.
  if (outcome.exit_code == exit_code(ErrorKind::checkpoint) && !earlier_recipe.empty())
    write_file_atomically(paths.recipe(), earlier_recipe);
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
  cmd->add_option("--resume", a->request.resume,
                  "auto (the newest usable checkpoint of the run directory), never, or a "
                  "checkpoint folder")
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
