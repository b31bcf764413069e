// lib/launch/command.cpp -- mpirun, srun and single-process command lines.
#include "launch/command.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "topology/hostlist.h"

namespace trainctl {
namespace {

// Compute threads that wait sleep instead of spinning: waking costs microseconds a kernel, while spinning on a machine
// that others use too can cost a step a hundred times its length.
constexpr const char* kWaitPolicy = "passive";

void append(std::vector<std::string>& argv, std::initializer_list<std::string> words) {
  argv.insert(argv.end(), words);
}

// More compute threads than cores: whoever waits must sleep, not spin, or the others wait for it. The topology may
// promise more cores than this machine has (only looked at when all ranks are on one host: it is this one).
bool crowded(const LaunchPlan& plan, const HostTraits& host) {
  return plan.map.oversubscribed || plan.busy_cores ||
         (host.cores > 0 && plan.map.hosts.size() == 1 &&
          plan.max_local_ranks * plan.job.threads_per_rank > host.cores);
}

Command mpirun_command(const LaunchPlan& plan, const HostTraits& host) {
  Command command;
  std::string hosts;
  for (const HostPlace& place : plan.map.hosts)
    hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", place.host.name, place.num_ranks);
  const std::string threads = std::to_string(plan.job.threads_per_rank);
  append(command.argv, {"mpirun", "--tag-output", "--stdin", "none"});
  append(command.argv, {"-n", std::to_string(plan.job.world_size), "--host", hosts});
  append(command.argv, {"--map-by", plan.bind_to_core ? "slot:PE=" + threads : "slot"});
  append(command.argv, {"--bind-to", plan.bind_to_core ? "core" : "none"});
  if (plan.map.oversubscribed) append(command.argv, {"--oversubscribe"});
  if (crowded(plan, host)) append(command.argv, {"--mca", "mpi_yield_when_idle", "1"});
  if (!host.cross_memory) append(command.argv, {"--mca", "btl_vader_single_copy_mechanism", "none"});
  append(command.argv, {"-x", "OMP_NUM_THREADS=" + threads});
  append(command.argv, {"-x", std::string("OMP_WAIT_POLICY=") + kWaitPolicy});
  if (host.root) command.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return command;
}

Command srun_command(const LaunchPlan& plan) {
  const auto& hosts = plan.map.hosts;
  const int per_host = hosts.front().num_ranks;
  std::vector<std::string> names;
  for (size_t i = 0; i < hosts.size(); ++i) {
    names.push_back(hosts[i].host.name);
    const bool last = i + 1 == hosts.size();
    if (last ? hosts[i].num_ranks > per_host : hosts[i].num_ranks != per_host)
      fail(ErrorKind::plan,
           fmt::format("srun places the same number of ranks on every host (fewer on the last), but the "
                       "plan puts {} on {} and {} on {}; use --launcher mpirun, or hosts of one type",
                       per_host, hosts[0].host.name, hosts[i].num_ranks, hosts[i].host.name));
  }
  const std::string threads = std::to_string(plan.job.threads_per_rank);
  Command command;
  append(command.argv, {"srun", "--mpi=pmix", "--label", "--kill-on-bad-exit=1", "--input=none"});
  append(command.argv, {fmt::format("--nodes={}", hosts.size()), fmt::format("--ntasks={}", plan.job.world_size)});
  append(command.argv, {"--nodelist=" + compress_hostlist(names), fmt::format("--distribution=plane={}", per_host)});
  append(command.argv, {"--cpus-per-task=" + threads});
  append(command.argv, {plan.bind_to_core ? "--cpu-bind=cores" : "--cpu-bind=none"});
  if (plan.map.oversubscribed) append(command.argv, {"--overcommit"});
  command.environment = {{"OMP_NUM_THREADS", threads}, {"OMP_WAIT_POLICY", kWaitPolicy}};
  return command;
}

Command threads_command(const LaunchPlan& plan) {
  Command command;
  command.environment = {{"OMP_NUM_THREADS", std::to_string(plan.job.threads_per_rank)},
                         {"OMP_WAIT_POLICY", kWaitPolicy}};
  return command;
}

}  // namespace

HostTraits host_traits() {
  HostTraits traits;
  traits.root = ::geteuid() == 0;
  traits.cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  // A child reading its parent needs the same permission as one rank reading another.
  char theirs = 'x', mine = 0;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    iovec local{&mine, 1}, remote{&theirs, 1};
    ::_exit(::process_vm_readv(parent, &local, 1, &remote, 1, 0) == 1 && mine == 'x' ? 0 : 1);
  }
  int status = 1;
  traits.cross_memory = child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
  return traits;
}

Command launch_command(const LaunchPlan& plan, const std::filesystem::path& worker,
                       const std::filesystem::path& launch_json, const HostTraits& host) {
  Command command;
  if (plan.job.launcher == "mpirun") command = mpirun_command(plan, host);
  if (plan.job.launcher == "srun") command = srun_command(plan);
  if (plan.job.launcher == "threads") command = threads_command(plan);
  command.argv.insert(command.argv.end(), plan.launcher_arguments.begin(), plan.launcher_arguments.end());
  command.argv.push_back(worker.string());
  if (plan.job.launcher == "threads") command.argv.push_back("--threads");
  append(command.argv, {"--launch", launch_json.string()});
  return command;
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string quoted_word = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted_word += "'\\''";
    else
      quoted_word += c;
  }
  return quoted_word + "'";
}

std::string shell_line(const Command& command) {
  std::string line;
  for (const auto& [key, value] : command.environment) line += key + "=" + shell_quote(value) + " ";
  for (size_t i = 0; i < command.argv.size(); ++i) line += (i == 0 ? "" : " ") + shell_quote(command.argv[i]);
  return line;
}

}  // namespace trainctl
