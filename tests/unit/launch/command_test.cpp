// tests/unit/launch/command_test.cpp -- the command lines, word for word.
#include "launch/command.h"

#include <algorithm>

#include "base/error.h"
#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl {
namespace {

using Catch::Contains;

// `ranks_of_hosts` ranks on hosts n1, n2, ...
LaunchPlan plan_of(const std::string& launcher, const std::vector<int>& ranks_of_hosts) {
  LaunchPlan plan;
  plan.job.launcher = launcher;
  plan.job.threads_per_rank = 3;
  for (size_t i = 0; i < ranks_of_hosts.size(); ++i) {
    plan.map.hosts.push_back({.host = {.name = "n" + std::to_string(i + 1)}, .num_ranks = ranks_of_hosts[i]});
    plan.job.world_size += ranks_of_hosts[i];
  }
  return plan;
}

std::string line_of(const LaunchPlan& plan, const HostTraits& host = {}) {
  return shell_line(launch_command(plan, "/bin/trainctl_worker", "/runs/a b/launch.json", host));
}

}  // namespace

TEST_CASE("mpirun gets hosts with their ranks, the mapping and the binding", "[launch]") {
  LaunchPlan plan = plan_of("mpirun", {4, 2});
  CHECK(line_of(plan) ==
        "mpirun --tag-output --stdin none -n 6 --host n1:4,n2:2 --map-by slot --bind-to none -x OMP_NUM_THREADS=3 -x "
        "OMP_WAIT_POLICY=passive "
        "/bin/trainctl_worker --launch '/runs/a b/launch.json'");
  plan.bind_to_core = true;
  CHECK_THAT(line_of(plan), Contains("--map-by slot:PE=3 --bind-to core"));
}

TEST_CASE("mpirun is told about root, crowded cores and forbidden memory reads only where they are so", "[launch]") {
  LaunchPlan plan = plan_of("mpirun", {4});
  CHECK_THAT(line_of(plan),
             !Contains("oversubscribe") && !Contains("yield") && !Contains("vader") && !Contains("ROOT"));
  plan.map.oversubscribed = true;
  CHECK_THAT(line_of(plan), Contains("--oversubscribe --mca mpi_yield_when_idle 1"));
  plan.map.oversubscribed = false;
  plan.max_local_ranks = 4;
  for (const auto& [cores, waits] : {std::pair<int64_t, bool>{11, true}, {12, false}, {0, false}}) {
    const std::string line = line_of(plan, {.cores = cores});  // 4 ranks x 3 threads
    CHECK((line.find("yield_when_idle") != std::string::npos) == waits);
    CHECK_THAT(line, Contains("OMP_WAIT_POLICY=passive"));
  }
  plan.job.launcher = "threads";
  CHECK_THAT(line_of(plan, {.cores = 2}), Contains("OMP_WAIT_POLICY=passive"));
  plan.job.launcher = "mpirun";
  CHECK_THAT(line_of(plan, {.cross_memory = false}), Contains("--mca btl_vader_single_copy_mechanism none"));
  CHECK_THAT(line_of(plan, {.root = true}),
             Catch::StartsWith("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun "));
}

TEST_CASE("srun gets cpus-per-task and cpu-bind restated, a PMI and the node list", "[launch]") {
  CHECK(line_of(plan_of("srun", {4, 4, 2})) ==
        "OMP_NUM_THREADS=3 OMP_WAIT_POLICY=passive srun --mpi=pmix --label --kill-on-bad-exit=1 --input=none --nodes=3 "
        "--ntasks=10 "
        "'--nodelist=n[1-3]' --distribution=plane=4 --cpus-per-task=3 --cpu-bind=none /bin/trainctl_worker --launch "
        "'/runs/a b/launch.json'");
  CHECK_THROWS_WITH(line_of(plan_of("srun", {2, 4})), Contains("2 on n1 and 4 on n2"));
}

TEST_CASE("threads need no launcher, and further arguments go to the launcher, not to the worker", "[launch]") {
  CHECK(line_of(plan_of("threads", {4})) ==
        "OMP_NUM_THREADS=3 OMP_WAIT_POLICY=passive /bin/trainctl_worker --threads --launch '/runs/a b/launch.json'");
  LaunchPlan plan = plan_of("mpirun", {1});
  plan.launcher_arguments = {"--mca", "btl", "self,tcp"};
  CHECK_THAT(line_of(plan), Contains("--mca btl self,tcp /bin/trainctl_worker"));
}

TEST_CASE("a shell reads a quoted word back as it was", "[launch]") {
  for (const std::string word :
       {"", "plain", "a b", "it's", "$HOME `id` \\ \"q\"", "*?[1]", "~", "a\nb", "-x", "ümlaut"}) {
    const testing::SubprocessResult r = testing::run({"/bin/sh", "-c", "printf %s " + shell_quote(word)});
    CHECK(r.out == word);
  }
}

}  // namespace trainctl
