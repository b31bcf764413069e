// tests/unit/launch/job_test.cpp -- launch.json and errors/rank-N.json survive a round trip; broken files are told.
#include "recipe/job.h"

#include <nlohmann/json.hpp>

#include "base/config_io.h"
#include "base/error.h"
#include "support/catch.h"
#include "support/subprocess.h"

namespace trainctl {
namespace {

Job small_job() {
  Job job;
  job.build_id = "src-1";
  job.run_dir = "/runs/a \"b\"";
  job.launcher = "mpirun";
  job.world_size = 2;
  job.ranks = {{.rank = 0, .host = "a", .local_rank = 0, .device = 0, .coordinates = {0, 0, 0, 0, 0}},
               {.rank = 1, .host = "b", .local_rank = 0, .device = 0, .coordinates = {1, 0, 0, 0, 0}}};
  job.threads_per_rank = 3;
  job.peak_flops_per_rank = 1.5e12;
  job.overrides = {"runtime.steps=3"};
  job.skip = {.batches = 3, .samples = 24, .manifest_sha256 = "ab", .step = 10};
  job.skipped_before = {{.batches = 1, .samples = 8, .manifest_sha256 = "cd", .step = 5}};
  job.recipe = load_recipe_text(R"({"name": "r",
    "model": {"family": "llama", "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16, "vocab": 10},
    "data": {"train": [{"path": "x"}], "sequence_tokens": 4}, "optimizer": {"lr": 0.1},
    "runtime": {"steps": 3, "micro_batch_size": 1}})",
                                "test")
                   .recipe;
  return job;
}

}  // namespace

TEST_CASE("launch.json holds the whole job", "[launch]") {
  const testing::TemporaryFolder folder;
  const Job job = small_job();
  save_job(job, folder.path() / "launch.json");
  CHECK(write_config(load_job(folder.path() / "launch.json")) == write_config(job));
}

TEST_CASE("a launch.json with a wrong number of ranks, or ranks out of order, is refused", "[launch]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "launch.json";
  Job job = small_job();
  job.world_size = 3;
  save_job(job, file);
  CHECK_THROWS_WITH(load_job(file), Catch::Contains("world_size is 3") && Catch::Contains("2 entries"));
  job.world_size = 2;
  std::swap(job.ranks[0], job.ranks[1]);
  save_job(job, file);
  CHECK_THROWS_WITH(load_job(file), Catch::Contains("ranks[0].rank is 1"));
  CHECK_THROWS_AS(load_job(folder.file("bad.json", "{\"schema\": \"trainctl-launch-9\"")), Error);
  CHECK_THROWS_AS(load_job(folder.path() / "absent.json"), Error);
}

TEST_CASE("reports of failed ranks are read back by rank, half-written ones are passed over", "[launch]") {
  const testing::TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  std::filesystem::create_directories(paths.errors());
  CHECK(load_rank_failures(paths.errors()).empty());
  RankFailure failure;
  failure.kind = "hang";
  failure.message = "a\n\"b\"";
  failure.group_ranks = {1, 7};
  for (const int64_t rank : {7, 1}) {
    failure.rank = rank;
    save_rank_failure(failure, paths.rank_error(rank));
  }
  folder.file("errors/rank-00003.json", "{\"rank\": 3, \"ki");
  folder.file("errors/notes.txt", "x");
  const std::vector<RankFailure> read = load_rank_failures(paths.errors());
  REQUIRE(read.size() == 2);
  CHECK(read[0].rank == 1);
  CHECK(write_config(read[1]) == (failure.rank = 7, write_config(failure)));
  CHECK(load_rank_failures(folder.path() / "absent").empty());
}

}  // namespace trainctl
