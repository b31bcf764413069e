// tests/unit/launch/launch_plan_test.cpp -- threads, binding, peak and memory of a rank.
#include "launch/launch_plan.h"

#include "base/error.h"
#include "support/catch.h"

namespace trainctl {
namespace {

using Catch::Contains;

LoadedRecipe recipe(const std::vector<std::string>& overrides = {}) {
  return load_recipe_text(R"({"name": "r",
    "model": {"family": "llama", "layers": 4, "d_model": 64, "heads": 4, "d_ff": 128, "vocab": 256},
    "data": {"train": [{"path": "x"}], "sequence_tokens": 32}, "optimizer": {"lr": 0.1},
    "parallelism": {"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": "fill"},
    "runtime": {"steps": 3, "micro_batch_size": 1, "global_batch_size": 8}})",
                          "test", overrides);
}

// `hosts` nodes of 8 cores and 8 slots.
TopologyConfig topology(const std::string& hosts, int64_t numa_nodes = 1) {
  TopologyConfig t;
  t.name = "t";
  NodeType type;
  type.name = "box";
  type.cores = 8;
  type.numa_nodes = numa_nodes;
  type.memory_bytes = 8000;
  type.peak_flops_f32 = 800;
  type.devices.kind = "cpu";
  type.devices.count = 8;
  t.node_types = {type};
  t.nodes = {{.names = hosts, .type = "box", .switch_name = ""}};
  t.origins = {{.key = "node_types[0].peak_flops_f32", .origin = "measured"}};
  return t;
}

}  // namespace

TEST_CASE("without a number of ranks the smallest world of the recipe runs, or what Slurm allotted", "[launch]") {
  CHECK(plan_launch(recipe(), topology("a"), {}, {}).job.world_size == 4);
  CHECK(plan_launch(recipe(), topology("a"), {.tasks = 8}, {}).job.world_size == 8);
  CHECK_THROWS_WITH(plan_launch(recipe(), topology("a"), {.tasks = 4}, {.ranks = 8}),
                    Contains("SLURM_NTASKS=4, but the plan has 8 ranks"));
}

TEST_CASE("threads per rank are cores / ranks of the host unless given", "[launch]") {
  CHECK(plan_launch(recipe(), topology("a"), {}, {}).job.threads_per_rank == 2);
  CHECK(plan_launch(recipe(), topology("a"), {}, {.ranks = 8}).job.threads_per_rank == 1);
  CHECK(plan_launch(recipe({"runtime.threads_per_rank=3"}), topology("a"), {}, {}).job.threads_per_rank == 3);
  const LaunchPlan asked =
      plan_launch(recipe({"runtime.threads_per_rank=3"}), topology("a"), {}, {.threads_per_rank = 4});
  CHECK(asked.job.threads_per_rank == 4);
  CHECK(asked.job.recipe.runtime.threads_per_rank == 4);
  CHECK(asked.busy_cores);
  CHECK_THAT(asked.warnings.back(), Contains("4 ranks x 4 threads on 8 cores"));
  CHECK_THROWS_WITH(plan_launch(recipe(), topology("a"), {.cpus_per_task = 2}, {.threads_per_rank = 4}),
                    Contains("SLURM_CPUS_PER_TASK=2") && Contains("4 threads"));
}

TEST_CASE("ranks are bound to cores on machines of several memory domains, or when asked", "[launch]") {
  CHECK_FALSE(plan_launch(recipe(), topology("a"), {}, {}).bind_to_core);
  CHECK(plan_launch(recipe(), topology("a", 2), {}, {}).bind_to_core);
  CHECK_FALSE(plan_launch(recipe(), topology("a", 2), {}, {.bind = "none"}).bind_to_core);
  CHECK(plan_launch(recipe(), topology("a"), {}, {.bind = "core"}).bind_to_core);
  CHECK_THROWS_WITH(plan_launch(recipe(), topology("a"), {}, {.bind = "core", .threads_per_rank = 4}),
                    Contains("--bind core"));
}

TEST_CASE("more ranks than slots need --oversubscribe, and share peak and memory", "[launch]") {
  CHECK_THROWS_AS(plan_launch(recipe(), topology("a"), {}, {.ranks = 16}), Error);
  const LaunchPlan plan =
      plan_launch(recipe({"runtime.global_batch_size=16"}), topology("a"), {}, {.ranks = 16, .oversubscribe = true});
  CHECK(plan.map.oversubscribed);
  CHECK(plan.busy_cores);
  CHECK(plan.job.peak_flops_per_rank == Approx(50));
  CHECK(plan.job.memory_limit_bytes_per_rank == 500);
}

TEST_CASE("a rank's peak is its threads' share of the node's, with its origin", "[launch]") {
  const LaunchPlan plan = plan_launch(recipe(), topology("a"), {}, {});
  CHECK(plan.job.peak_flops_per_rank == Approx(200));  // 2 of 8 cores
  CHECK(plan.job.peak_flops_origin == "measured");
  CHECK(plan.job.memory_limit_bytes_per_rank == 2000);
  CHECK(plan_launch(recipe(), topology("a"), {}, {.threads_per_rank = 1}).job.peak_flops_per_rank == Approx(100));
  TopologyConfig unknown = topology("a");
  unknown.node_types[0].peak_flops_f32 = 0;
  unknown.origins.clear();
  const LaunchPlan blind = plan_launch(recipe(), unknown, {}, {});
  CHECK(blind.job.peak_flops_per_rank == 0);
  CHECK(blind.job.peak_flops_origin.empty());
}

TEST_CASE("threads of one process stay on one host, and do not ask Slurm", "[launch]") {
  CHECK_THROWS_WITH(plan_launch(recipe(), topology("n[1-2]"), {}, {.ranks = 16, .launcher = "threads"}),
                    Contains("2 hosts"));
  CHECK(plan_launch(recipe(), topology("a"), {.tasks = 1}, {.launcher = "threads"}).job.world_size == 4);
}

TEST_CASE("a recipe for a device this build has no backend for is refused by name", "[launch]") {
  CHECK_THROWS_WITH(plan_launch(recipe({"runtime.device=cuda"}), topology("a"), {}, {}),
                    Contains("runtime.device") && Contains("no cuda backend") && Contains("cpu"));
}

TEST_CASE("every rank is listed with its host and coordinates", "[launch]") {
  const LaunchPlan plan = plan_launch(recipe(), topology("n[1-2]"), {}, {.ranks = 16});
  REQUIRE(plan.job.ranks.size() == 16);
  CHECK(plan.job.ranks[9].host == "n2");
  CHECK(plan.job.ranks[9].local_rank == 1);
  CHECK(plan.job.ranks[1].coordinates == std::vector<int64_t>{1, 0, 0, 0, 0});
  CHECK(plan.job.ranks[15].coordinates == std::vector<int64_t>{1, 0, 0, 3, 1});
}

}  // namespace trainctl
