// tests/cli/launch_command_test.cpp -- `trainctl launch`: dry runs, preflight, Slurm; what it refuses and how.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;
using Catch::StartsWith;

// The command line that a dry run prints, after "would run:".
std::string dry_run_line(const std::string& out) {
  const size_t at = out.find("would run:\n  ");
  return at == std::string::npos ? "" : out.substr(at + 13, out.find('\n', at + 13) - at - 13);
}

// An srun that writes its arguments and two variables to a file and starts one worker.
std::string fake_srun(const LaunchFixture& fixture) {
  const std::string file = fixture.folder.file("bin/srun", R"(#!/bin/bash
{ printf '%s\n' "$@"; echo "OMP_NUM_THREADS=$OMP_NUM_THREADS"; } > "$SRUN_RECORD"
while [ "${1#-}" != "$1" ]; do shift; done
SLURM_PROCID=0 exec "$@"
)");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return std::filesystem::path(file).parent_path().string();
}

}  // namespace

TEST_CASE("a dry run prints the command and the files, needs no mpirun, and writes nothing", "[cli]") {
  const LaunchFixture fixture;
  SubprocessOptions options = fixture.options("");
  options.environment.push_back({"PATH", "/nonexistent"});
  const SubprocessResult r = run(fixture.command({"--dry-run", "--ranks", "4"}), options);
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  CHECK_THAT(r.out, Contains("launch.json") && Contains("recipe.json") && Contains("plan.json"));
  CHECK_THAT(dry_run_line(r.out), Contains("mpirun") && Contains("-n 4") && Contains("--host localhost:4"));
  CHECK_FALSE(std::filesystem::exists(fixture.run_dir()));
}

TEST_CASE("a dry run warns about missing data and refuses an illegal layout", "[cli]") {
  const LaunchFixture fixture;
  std::filesystem::remove(fixture.folder.path() / "data/text.idx");
  const SubprocessResult warned = fixture.launch({"--dry-run"});
  CHECK(warned.exit_code == 0);
  CHECK_THAT(warned.err, StartsWith("trainctl: warning: ") && Contains("text.idx"));
  const SubprocessResult refused = fixture.launch({"--dry-run", "--ranks", "3"});
  CHECK(refused.exit_code == 2);
}

TEST_CASE("what a dry run prints is what a launch runs, quoting included", "[cli]") {
  const LaunchFixture fixture(3);
  const std::vector<std::string> more = {"--ranks", "2",         "--launcher",
                                         "threads", "--run-dir", (fixture.folder.path() / "it's a run").string()};
  const std::string line = dry_run_line(fixture
                                            .launch([&] {
                                              auto arguments = more;
                                              arguments.push_back("--dry-run");
                                              return arguments;
                                            }())
                                            .out);
  REQUIRE(fixture.launch(more).exit_code == 0);
  CHECK_THAT(read_text(fixture.folder.path() / "it's a run/logs/launcher.log"), Contains("command: " + line + "\n"));
  // The printed line is a shell command that works.
  std::filesystem::remove(fixture.folder.path() / "it's a run/metrics.jsonl");
  const SubprocessResult pasted = run({"/bin/sh", "-c", line}, fixture.options(""));
  INFO(pasted.err);
  CHECK(pasted.exit_code == 0);
  CHECK(count_of(read_text(fixture.folder.path() / "it's a run/metrics.jsonl"), "\n") == 3);
}

TEST_CASE("the resolved recipe, overrides and rank map are in the run directory", "[cli]") {
  const LaunchFixture fixture(3);
  REQUIRE(fixture.launch({"--ranks", "4", "--launcher", "threads", "--set", "optimizer.lr=0.25"}).exit_code == 0);
  const auto recipe = nlohmann::json::parse(read_text(fixture.run_dir() / "recipe.json"));
  CHECK(recipe["optimizer"]["lr"] == 0.25);
  CHECK(recipe["parallelism"]["data_parallel"] == 2);
  const auto job = nlohmann::json::parse(read_text(fixture.run_dir() / "launch.json"));
  CHECK(job["ranks"].size() == 4);
  CHECK(job["overrides"][0] == "optimizer.lr=0.25");
  CHECK(job["threads_per_rank"] == 2);
  CHECK(job["peak_flops_per_rank"] == 2e10);
}

TEST_CASE("preflight names what is missing and how to get it", "[cli]") {
  const LaunchFixture fixture(3);
  SubprocessOptions no_path = fixture.options("");
  no_path.environment.push_back({"PATH", "/nonexistent"});
  const SubprocessResult no_mpirun = run(fixture.command({"--ranks", "2"}), no_path);
  CHECK(no_mpirun.exit_code == 3);
  CHECK_THAT(no_mpirun.err, Contains("trainctl: environment: mpirun") && Contains("openmpi-bin"));
  const SubprocessResult no_worker = fixture.launch({"--ranks", "2", "--worker", "/nonexistent/worker"});
  CHECK(no_worker.exit_code == 3);
  CHECK_THAT(no_worker.err, Contains("/nonexistent/worker"));
  const SubprocessResult slots = fixture.launch({"--ranks", "10", "--set", "runtime.global_batch_size=10"});
  CHECK(slots.exit_code == 2);
  CHECK_THAT(slots.err, Contains("oversubscribe") && Contains("8") && Contains("10"));
  std::filesystem::remove(fixture.folder.path() / "data/text.bin");
  const SubprocessResult no_data = fixture.launch({"--ranks", "2", "--launcher", "threads"});
  CHECK(no_data.exit_code == 2);
  CHECK_THAT(no_data.err, Contains("trainctl: input: ") && Contains("text.bin"));
  CHECK_FALSE(std::filesystem::exists(fixture.run_dir()));
}

TEST_CASE("a host that nobody knows is told before anything starts", "[cli]") {
  const LaunchFixture fixture(3);
  std::string text = read_text(fixture.topology);
  text.replace(text.find("localhost"), 9, "no-such-host-here");
  const std::string other = fixture.folder.file("other.json", text);
  const SubprocessResult r = fixture.launch({"--ranks", "2", "--topology", other});
  INFO(r.err);
  CHECK(r.exit_code != 0);
  CHECK_FALSE(std::filesystem::exists(fixture.run_dir()));
}

TEST_CASE("srun is called with cpus-per-task and cpu-bind as planned, and its ranks are supervised", "[cli]") {
  const LaunchFixture fixture(3);
  const std::string record = (fixture.folder.path() / "record").string();
  SubprocessOptions options = fixture.options("");
  options.environment.push_back({"PATH", fake_srun(fixture) + ":/usr/bin:/bin"});
  options.environment.push_back({"SRUN_RECORD", record});
  const SubprocessResult r = run(fixture.command({"--ranks", "4", "--launcher", "srun"}), options);
  INFO(r.err);
  REQUIRE(r.exit_code == 0);
  const std::string arguments = read_text(record);
  for (const char* expected : {"--cpus-per-task=2\n", "--cpu-bind=none\n", "--ntasks=4\n", "--nodes=1\n",
                               "--mpi=pmix\n", "--nodelist=localhost\n", "OMP_NUM_THREADS=2\n"})
    CHECK_THAT(arguments, Contains(expected));
}

TEST_CASE("an allocation that disagrees with the plan is refused with both numbers", "[cli]") {
  const LaunchFixture fixture(3);
  SubprocessOptions options = fixture.options("");
  options.environment.push_back({"SLURM_NTASKS", "4"});
  options.environment.push_back({"SLURM_NNODES", "2"});
  const SubprocessResult r = run(fixture.command({"--ranks", "8", "--set", "runtime.global_batch_size=8"}), options);
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, Contains("SLURM_NTASKS=4, but the plan has 8 ranks"));
  CHECK_THAT(r.err, Contains("SLURM_NNODES=2, but the plan uses 1 host"));
}

TEST_CASE("--run-dir and --resume accept runs and refuse everything else", "[cli]") {
  const LaunchFixture fixture(3);
  const std::vector<std::string> threads = {"--ranks", "2", "--launcher", "threads"};
  REQUIRE(fixture.launch(threads).exit_code == 0);
  auto never = threads;
  never.insert(never.end(), {"--resume", "never"});
  const SubprocessResult refused = fixture.launch(never);
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Contains("--resume never"));
  auto absent = threads;
  absent.insert(absent.end(), {"--resume", "nowhere/step-9"});
  CHECK(fixture.launch(absent).exit_code == 5);
  std::filesystem::create_directories(fixture.run_dir() / "checkpoints/step-00000007");
  absent.back() = (fixture.run_dir() / "checkpoints/step-00000009").string();
  const SubprocessResult other_step = fixture.launch(absent);
  CHECK(other_step.exit_code == 5);
  CHECK_THAT(other_step.err, Contains("has step 7 (incomplete)"));
  const std::filesystem::path hf = fixture.folder.path() / "hf";
  std::filesystem::create_directories(hf);
  fixture.folder.file("hf/config.json", "{}");
  absent.back() = hf.string();
  const SubprocessResult weights = fixture.launch(absent);
  CHECK(weights.exit_code == 5);
  CHECK_THAT(weights.err, Contains("Hugging Face folder") && Contains("checkpoint import --from hf " + hf.string()) &&
                              Contains("--init-from"));
  auto longer = threads;
  longer.insert(longer.end(), {"--set", "runtime.steps=5"});
  const SubprocessResult continued = fixture.launch(longer);
  CHECK(continued.exit_code == 0);
  CHECK_THAT(continued.err, Contains("runtime.steps: 3 -> 5"));
  CHECK(count_of(read_text(fixture.run_dir() / "metrics.jsonl"), "\n") == 5);
}

TEST_CASE("what the launcher refuses before any rank starts is the request's fault, and names the argument", "[cli]") {
  const LaunchFixture fixture(3);
  const auto launch = [&](std::vector<std::string> arguments) {
    std::vector<std::string> words = {"--ranks", "1", "--set", "parallelism.tensor_parallel=1"};
    for (std::string& argument : arguments) words.push_back("--launcher-arg=" + std::move(argument));
    std::filesystem::remove_all(fixture.run_dir());
    return fixture.launch(words);
  };
  for (const auto& [arguments, named] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"bogus"}, "--launcher-arg bogus: mpirun ended before any rank started"},
           {{"--bogus"}, "--launcher-arg --bogus: mpirun ended before any rank started"},
           {{"--map-by", "nowhere"}, "--launcher-arg nowhere: "},
           {{"--version"}, "--launcher-arg --version: "}}) {
    INFO(named);
    const SubprocessResult r = launch(arguments);
    INFO(r.err);
    CHECK(r.exit_code == 2);
    CHECK_THAT(r.err, Catch::StartsWith("trainctl: usage: " + named));
    CHECK_THAT(r.err, Contains("what to do: correct or leave out"));
  }
  const SubprocessResult threads = fixture.launch({"--ranks", "2", "--launcher", "threads", "--launcher-arg", "bogus"});
  CHECK(threads.exit_code == 2);
  CHECK_THAT(threads.err, Contains("--launcher-arg bogus") && Contains("--launcher threads"));
}

TEST_CASE("a launch that is refused leaves nothing in a folder of somebody else's, and makes no run of its own",
          "[cli]") {
  const LaunchFixture fixture(3);
  const auto foreign = fixture.run_dir();
  std::filesystem::create_directories(foreign);
  fixture.folder.file("run/thesis.tex", "x");
  const SubprocessResult r = fixture.launch({"--ranks", "2", "--launcher", "threads"});
  CHECK(r.exit_code == 2);
  CHECK_THAT(r.err, Contains("no run directory"));
  CHECK(std::distance(std::filesystem::directory_iterator(foreign), {}) == 1);
  SubprocessOptions here = fixture.options("");
  here.directory = fixture.folder.path();
  const SubprocessResult absent = run({program("trainctl"), "launch", fixture.recipe, "--topology", fixture.topology,
                                       "--ranks", "2", "--launcher", "threads", "--resume", "nothing/step-00000003"},
                                      here);
  CHECK(absent.exit_code == 5);
  CHECK_FALSE(std::filesystem::exists(fixture.folder.path() / "runs"));
}

}  // namespace trainctl::testing
