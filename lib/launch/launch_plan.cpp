// lib/launch/launch_plan.cpp -- from a recipe and a topology to launch.json's content.
#include "launch/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

const NodeType& type_of(const LaunchPlan& plan, const HostPlace& place) {
  return plan.topology.node_types[static_cast<size_t>(place.host.type)];
}

MeshDegrees degrees_of(const ParallelismConfig& p) {
  return {.tensor = p.tensor_parallel,
          .context = p.context_parallel,
          .expert = p.expert_parallel,
          .data = p.data_parallel.value.value_or(0),
          .pipeline = p.pipeline_parallel};
}

void choose_threads(LaunchPlan& plan, const SlurmAllocation& slurm, const LaunchRequest& request) {
  RuntimeConfig& runtime = plan.job.recipe.runtime;
  int64_t fewest = 0;  // cores per rank on the tightest host
  for (const HostPlace& place : plan.map.hosts) {
    const int64_t share = type_of(plan, place).cores / place.num_ranks;
    fewest = &place == plan.map.hosts.data() ? share : std::min(fewest, share);
  }
  std::string reason = "cores / ranks of a host";
  int64_t threads = std::max<int64_t>(fewest, 1);
  if (slurm.cpus_per_task) {
    threads = *slurm.cpus_per_task;
    reason = "SLURM_CPUS_PER_TASK";
  }
  if (runtime.threads_per_rank > 0) {
    threads = runtime.threads_per_rank;
    reason = "runtime.threads_per_rank";
  }
  if (request.threads_per_rank) {
    threads = *request.threads_per_rank;
    reason = "--threads-per-rank";
  }
  if (slurm.cpus_per_task && threads > *slurm.cpus_per_task)
    fail(
        ErrorKind::plan,
        fmt::format("{} asks for {} per rank, but SLURM_CPUS_PER_TASK={}; ask Slurm for more CPUs per "
                    "task, or for at most {}",
                    reason, counted(threads, "thread"), *slurm.cpus_per_task, counted(*slurm.cpus_per_task, "thread")));
  plan.job.threads_per_rank = runtime.threads_per_rank = threads;

  int64_t numa_nodes = 1;
  for (const HostPlace& place : plan.map.hosts) {
    const NodeType& type = type_of(plan, place);
    numa_nodes = std::max(numa_nodes, type.numa_nodes);
    if (place.num_ranks * threads <= type.cores) continue;
    plan.busy_cores = true;
    if (place.num_ranks > place.slots) continue;  // the rank map has warned of this host
    plan.warnings.push_back(fmt::format("host {}: {} x {} on {}; {} will wait for each other", place.host.name,
                                        counted(place.num_ranks, "rank"), counted(threads, "thread"),
                                        counted(type.cores, "core"), place.num_ranks == 1 ? "threads" : "ranks"));
  }
  plan.bind_to_core = request.bind == "core" || (request.bind == "auto" && numa_nodes > 1 && !plan.busy_cores);
  if (plan.bind_to_core && plan.busy_cores)
    fail(ErrorKind::plan,
         "--bind core needs a core for every compute thread; use --bind none, fewer ranks or fewer "
         "--threads-per-rank");
  if (plan.bind_to_core && plan.job.launcher == "threads") plan.bind_to_core = false;  // one process, no launcher binds
  const std::string why = request.bind != "auto" ? "as asked"
                          : plan.bind_to_core    ? "several NUMA nodes"
                          : plan.busy_cores      ? "more threads than cores"
                          : numa_nodes == 1      ? "one NUMA node"
                                                 : "ranks are threads";
  plan.binding = fmt::format("{} per rank ({}), {} ({})", counted(threads, "thread"), reason,
                             plan.bind_to_core ? "each rank bound to its own cores" : "no binding", why);
}

// What a rank of the tightest host could reach, and who says so.
void note_peak(LaunchPlan& plan) {
  const bool bf16 = plan.job.recipe.runtime.precision == "bf16";
  double least = -1;
  for (const HostPlace& place : plan.map.hosts) {
    const NodeType& type = type_of(plan, place);
    const std::string key = bf16 ? "peak_flops_bf16" : "peak_flops_f32";
    std::string path = fmt::format("node_types[{}].", place.host.type);
    const double of_device = bf16 ? type.devices.peak_flops_bf16 : type.devices.peak_flops_f32;
    double peak = of_device;
    path += of_device > 0 ? "devices." + key : key;
    if (of_device <= 0 && type.devices.kind == "cpu") {
      const double of_node = bf16 ? type.peak_flops_bf16 : type.peak_flops_f32;
      const double cores = std::min(static_cast<double>(plan.job.threads_per_rank),
                                    static_cast<double>(type.cores) / static_cast<double>(place.num_ranks));
      peak = of_node * cores / static_cast<double>(type.cores);
    }
    if (least >= 0 && peak >= least) continue;
    least = peak;
    plan.job.peak_flops_origin = std::string(origin_of(plan.topology, path));
    if (plan.job.peak_flops_origin.empty()) plan.job.peak_flops_origin = "typed";
  }
  plan.job.peak_flops_per_rank = std::max(least, 0.0);
  if (plan.job.peak_flops_per_rank <= 0) plan.job.peak_flops_origin.clear();
}

void copy_ranks(LaunchPlan& plan) {
  for (const RankPlace& place : plan.map.ranks) {
    const Coordinates& c = place.coordinates;
    plan.job.ranks.push_back({.rank = place.rank,
                              .host = plan.map.host_name(place.rank),
                              .local_rank = place.local_rank,
                              .device = place.device,
                              .coordinates = {c.tensor, c.context, c.expert, c.data, c.pipeline}});
  }
  for (const HostPlace& place : plan.map.hosts)
    plan.max_local_ranks = std::max<int64_t>(plan.max_local_ranks, place.num_ranks);
}

}  // namespace

LaunchPlan plan_launch(const LoadedRecipe& recipe, const TopologyConfig& topology, const SlurmAllocation& slurm,
                       const LaunchRequest& request) {
  const bool threads = request.launcher == "threads";
  if (threads && !request.launcher_arguments.empty())
    fail(ErrorKind::usage, fmt::format("--launcher-arg {}: --launcher threads starts one process and no mpirun or srun "
                                       "that could take it; leave it out, or choose another --launcher",
                                       request.launcher_arguments.front()));
  int64_t world = smallest_world(recipe.recipe);
  if (slurm.tasks && !threads) world = *slurm.tasks;
  if (request.ranks) world = *request.ranks;

  LaunchPlan plan;
  plan.topology = topology;
  plan.launcher_arguments = request.launcher_arguments;
  const ResolveResult resolved = resolve(recipe, world);
  refuse_faults(recipe.source.source, resolved.faults);
  plan.job.recipe = resolved.recipe;
  plan.job.overrides = recipe.overrides;
  plan.job.launcher = request.launcher;
  plan.job.resume = request.resume;
  plan.job.world_size = world;

  const Mesh mesh(fit_world(degrees_of(plan.job.recipe.parallelism), world), plan.job.recipe.parallelism.order);
  plan.map = plan_ranks(
      topology, mesh,
      {.ranks_per_node = threads ? std::nullopt : slurm.tasks_per_node, .oversubscribe = request.oversubscribe});
  plan.warnings = resolved.warnings;
  plan.warnings.insert(plan.warnings.end(), plan.map.warnings.begin(), plan.map.warnings.end());
  if (plan.job.recipe.runtime.device == "cuda")
    fail(ErrorKind::plan,
         "runtime.device is \"cuda\", but this build has no cuda backend: it can plan such a recipe (trainctl plan) "
         "and not launch it; use --set runtime.device=cpu");
  if (plan.job.recipe.runtime.device != plan.map.device_kind)
    fail(ErrorKind::plan, fmt::format("runtime.device is \"{}\", but the topology's nodes have {} devices; use "
                                      "--set runtime.device={} or another --topology",
                                      plan.job.recipe.runtime.device, plan.map.device_kind, plan.map.device_kind));
  if (threads && plan.map.hosts.size() > 1)
    fail(ErrorKind::plan,
         fmt::format("--launcher threads runs all ranks in one process on one host, but the plan uses "
                     "{}; use mpirun or srun, or at most {}",
                     counted(std::ssize(plan.map.hosts), "host"), counted(plan.map.hosts.front().slots, "rank")));
  if (!threads) require_agreement(slurm, plan.map);
  copy_ranks(plan);
  choose_threads(plan, threads ? SlurmAllocation{} : slurm, request);
  note_peak(plan);
  plan.job.memory_limit_bytes_per_rank = memory_limit_bytes_per_rank(topology, plan.map);
  return plan;
}

}  // namespace trainctl
