// tests/unit/launch/run_directory_test.cpp -- which folders are accepted, and what is written.
#include "launch/run_directory.h"

#include <regex>
#include <thread>

#include "base/error.h"
#include "support/catch.h"
#include "support/hostile_json.h"
#include "support/subprocess.h"

namespace trainctl {
namespace {

using Catch::Contains;
using testing::TemporaryFolder;

Job small_job(const std::filesystem::path& root) {
  Job job;
  job.build_id = "src-1";
  job.run_dir = root.string();
  job.launcher = "threads";
  job.world_size = 1;
  job.ranks = {{.rank = 0, .host = "a", .coordinates = {0, 0, 0, 0, 0}}};
  job.recipe = load_recipe_text(R"({"name": "r",
    "model": {"family": "llama", "layers": 1, "d_model": 8, "heads": 2, "d_ff": 16, "vocab": 10},
    "data": {"train": [{"path": "x"}], "sequence_tokens": 4}, "optimizer": {"lr": 0.1},
    "runtime": {"steps": 3, "micro_batch_size": 1}})",
                                "test")
                   .recipe;
  return job;
}

}  // namespace

TEST_CASE("run directories are named by recipe and time, and never shared", "[launch]") {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto now = std::chrono::system_clock::now();
  const std::string first = default_run_directory("tiny", now, true).string();
  const std::string second = default_run_directory("tiny", now, true).string();
  const std::string third = default_run_directory("tiny", now, false).string();
  const bool third_exists = std::filesystem::exists(third);
  std::filesystem::current_path(before);
  CHECK(std::regex_match(first, std::regex("runs/tiny/[0-9]{8}-[0-9]{6}")));
  CHECK(second == first + "-2");
  CHECK(third == first + "-3");
  CHECK_FALSE(third_exists);
}

TEST_CASE("a folder with other files is no run directory", "[launch]") {
  const TemporaryFolder folder;
  folder.file("thesis.tex", "x");
  CHECK_THROWS_WITH(open_run_directory(folder.path(), "auto"), Contains("thesis.tex") && Contains("no run directory"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // nothing was put there
  CHECK_THROWS_WITH(open_run_directory(folder.path() / "thesis.tex", "auto"), Contains("is a file"));
}

TEST_CASE("an earlier run is continued, or refused when a new one is wanted", "[launch]") {
  const TemporaryFolder folder;
  const auto root = folder.path() / "a" / "b";
  {
    const RunDirectory fresh = open_run_directory(root, "never");
    CHECK_FALSE(fresh.continues);
    write_run_files(fresh.paths, small_job(root), "{}\n");
  }
  CHECK_FALSE(open_run_directory(root, "never").continues);  // no step was made: nothing to continue
  folder.file("a/b/metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n");
  CHECK(open_run_directory(root, "auto").continues);
  CHECK_THROWS_WITH(open_run_directory(root, "never"), Contains("already holds a run"));
  CHECK_THROWS_WITH(open_run_directory(root, (folder.path() / "step-9").string()), Contains("step-9"));
}

TEST_CASE("a launcher killed before it wrote launch.json leaves a folder that starts anew", "[launch]") {
  const TemporaryFolder folder;
  const auto root = folder.path() / "run";
  const auto killed_start = [&] {
    std::filesystem::remove_all(root);
    const RunDirectory fresh = open_run_directory(root, "auto");
    write_run_files(fresh.paths, small_job(root), "{}\n");
    std::filesystem::rename(fresh.paths.launch(), fresh.paths.launch().string() + ".tmp.1.abc");
    return fresh.paths;
  };
  killed_start();
  CHECK_FALSE(open_run_directory(root, "auto").continues);
  folder.file("run/thesis.tex", "x");
  CHECK_THROWS_WITH(open_run_directory(root, "auto"), Contains("thesis.tex"));
  const RunPaths paths = killed_start();
  std::filesystem::create_directory(paths.checkpoints() / "step-00000001");  // states without their launch.json
  CHECK_THROWS_WITH(open_run_directory(root, "auto"), Contains("checkpoints") && Contains("no run directory") &&
                                                          Contains("put the file back, or go on from a checkpoint"));
}

TEST_CASE("what a refused launch leaves is no run, and no reason to refuse the next one", "[launch]") {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  write_run_files(open_run_directory(folder.path(), "auto").paths, small_job(folder.path()), "{}\n");
  folder.file("logs/rank-00000.log", "x");
  folder.file("errors/rank-00000.json", "x");
  folder.file("events.jsonl", "x");
  for (const auto& file : {paths.launch(), paths.recipe(), paths.plan()}) std::filesystem::remove(file);
  CHECK_FALSE(open_run_directory(folder.path(), "never").continues);
  std::filesystem::create_directory(paths.checkpoints() / "step-00000001");
  CHECK_THROWS_WITH(open_run_directory(folder.path(), "auto"), Contains("no run directory"));
}

TEST_CASE("a run directory is locked while it is open", "[launch]") {
  const TemporaryFolder folder;
  {
    const RunDirectory open = open_run_directory(folder.path(), "auto");
    CHECK_THROWS_WITH(open_run_directory(folder.path(), "auto"), Contains("in use by another launcher (pid "));
  }
  CHECK_NOTHROW(open_run_directory(folder.path(), "auto"));
}

TEST_CASE("no launch begins beside ranks of an earlier one", "[launch]") {
  const TemporaryFolder folder;
  FileLock rank;
  REQUIRE(rank.try_share(RunPaths{folder.path()}.ranks_lock(), "pid 77 on b"));
  folder.file("lock", "");
  CHECK_THROWS_WITH(open_run_directory(folder.path(), "auto", 0.05), Contains("pid 77 on b") && Contains("end them"));
  std::thread ends([&rank] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rank = FileLock();
  });
  CHECK_NOTHROW(open_run_directory(folder.path(), "auto"));
  ends.join();
}

TEST_CASE("what an earlier attempt left to be read once is cleared", "[launch]") {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  folder.file("stop.request", "");
  folder.file("errors/rank-00001.json", "{}");
  folder.file("metrics.jsonl", "{}\n");
  write_run_files(paths, small_job(folder.path()), "{}\n");
  CHECK_FALSE(std::filesystem::exists(paths.stop_request()));
  CHECK(std::filesystem::is_empty(paths.errors()));
  CHECK(std::filesystem::exists(paths.metrics()));
  CHECK(load_job(paths.launch()).run_dir == folder.path().string());
}

TEST_CASE("changes of the recipe between attempts are listed with both values", "[launch]") {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  Job job = small_job(folder.path());
  write_run_files(paths, job, "{}\n");
  Recipe now = load_job(paths.launch()).recipe;
  CHECK(recipe_changes(job.recipe, now).empty());
  now.runtime.steps = 9;
  CHECK(recipe_changes(job.recipe, now) == std::vector<std::string>{"runtime.steps: 3 -> 9"});
}

TEST_CASE("a recipe.json that is lost, damaged or edited is told before it is written anew", "[launch]") {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  const Job job = small_job(folder.path());
  write_run_files(paths, job, "{}\n");
  CHECK(recipe_file_remark(paths, job.recipe).empty());
  const std::string good = read_file(paths.recipe());
  for (const std::string& text : testing::hostile_json()) {
    INFO(text.substr(0, 60));
    folder.file("recipe.json", text);
    CHECK_THAT(recipe_file_remark(paths, job.recipe), Contains("recipe.json cannot be read (") && Contains("anew"));
  }
  folder.file("recipe.json", good.substr(0, good.size() / 2));
  CHECK_THAT(recipe_file_remark(paths, job.recipe), Contains("cannot be read"));
  std::string edited = good;
  edited.replace(edited.find("\"steps\": 3"), 10, "\"steps\": 5");
  folder.file("recipe.json", edited);
  CHECK_THAT(recipe_file_remark(paths, job.recipe),
             Contains("is not what the last launch wrote (runtime.steps: 3 -> 5)"));
  std::filesystem::remove(paths.recipe());
  CHECK_THAT(recipe_file_remark(paths, job.recipe), Contains("is not there") && Contains("launch.json"));
}

TEST_CASE("records with wrong JSON are errors that name the file, or no records", "[launch]") {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  std::filesystem::create_directory(paths.errors());
  for (const std::string& text : testing::hostile_json()) {
    INFO(text.substr(0, 60));
    folder.file("launch.json", text);
    try {
      load_job(paths.launch());
      FAIL("it was read");
    } catch (const Error& e) {
      CHECK(exit_code(e.kind()) == 2);
      CHECK_THAT(e.what(), Contains("launch.json"));
    }
    folder.file("errors/rank-00000.json", text);
    CHECK(load_rank_failures(paths.errors()).empty());
    CHECK_FALSE(rank_failure_of_line("trainctl_worker failure report: " + text));
  }
}

TEST_CASE("--resume takes words and folders, and tells what there is instead of a missing one", "[launch]") {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "step-00000015").string();
  CHECK_NOTHROW(check_resume("auto"));
  CHECK_NOTHROW(check_resume("never"));
  CHECK_NOTHROW(check_resume(folder.path().string()));
  CHECK_THROWS_WITH(check_resume(missing, [] { return "there are steps 10 and 20"; }),
                    Contains("there is no such checkpoint folder; there are steps 10 and 20; use auto"));
  CHECK_THROWS_WITH(open_run_directory(folder.path() / "new", missing),
                    Contains("no such checkpoint folder; use auto"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
}

}  // namespace trainctl
