// tests/fault/worker_fault_test.cpp -- the real worker killed, stopped, asked to stop, and left alone by its launcher.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/catch.h"
#include "support/launch_fixture.h"
#include "support/small_file_system.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

// 2 x 2 ranks under mpirun.
const std::vector<std::string> kFourRanks = {
    "--ranks", "4", "--set", "parallelism.pipeline_parallel=2", "--set", "parallelism.data_parallel=1"};

std::vector<std::string> four_ranks(std::vector<std::string> more) {
  more.insert(more.begin(), kFourRanks.begin(), kFourRanks.end());
  return more;
}

std::vector<int64_t> steps_of(const LaunchFixture& fixture) {
  std::vector<int64_t> steps;
  std::istringstream in(read_text(fixture.run_dir() / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // a full disk may have cut the last line
    const auto value = nlohmann::json::parse(line);
    if (value.contains("loss")) steps.push_back(value["step"].get<int64_t>());
  }
  return steps;
}

std::vector<int64_t> one_to(int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t s = 1; s <= last; ++s) steps.push_back(s);
  return steps;
}

bool all_gone(const std::map<int64_t, pid_t>& ranks, double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (std::chrono::steady_clock::now() < end) {
    bool any = false;
    for (const auto& [rank, pid] : ranks) any = any || is_alive(pid);
    if (!any) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// A launch that has made its third step, with the pids of its ranks.
struct RunningLaunch {
  RunningLaunch(const LaunchFixture& fixture, const std::vector<std::string>& more)
      : process(fixture.command(more), fixture.options("", 90)) {
    REQUIRE(process.wait_for_output("step 3/", 40));
    ranks = fixture.running_ranks();
    REQUIRE(ranks.size() == 4);
  }
  Subprocess process;
  std::map<int64_t, pid_t> ranks;
};

}  // namespace

TEST_CASE("four real ranks train to the end, and metrics.jsonl has every step once", "[fault][worker]") {
  LaunchFixture fixture(5);
  fixture.use_real_worker();
  const SubprocessResult r = fixture.launch(four_ranks({}), "", 90);
  INFO(r.err << r.out);
  REQUIRE(r.exit_code == 0);
  CHECK(steps_of(fixture) == one_to(5));
  const SubprocessResult again = fixture.launch(four_ranks({}), "", 90);
  INFO(again.err << again.out);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Contains("nothing to do"));
}

TEST_CASE("kill -9 of a real rank ends the job in under 10 s with 4, and names the rank", "[fault][worker]") {
  LaunchFixture fixture(2000);
  fixture.use_real_worker();
  RunningLaunch running(fixture, four_ranks({}));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(running.ranks.at(2), SIGKILL);
  const SubprocessResult r = running.process.wait();
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK_THAT(r.err, Contains("rank 2 on ") && Contains("SIGKILL"));
  CHECK(all_gone(running.ranks, 1));
}

TEST_CASE("a stopped rank ends the job within watchdog_s, named as the one that did not enter", "[fault][worker]") {
  LaunchFixture fixture(2000);
  fixture.use_real_worker();
  RunningLaunch running(fixture, four_ranks({"--set", "runtime.watchdog_s=3"}));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(running.ranks.at(1), SIGSTOP);
  const SubprocessResult r = running.process.wait();
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(3 + 10));
  CHECK_THAT(r.err, Contains("trainctl: hang: ") && Contains("not by rank 1") && Contains("stopped"));
  CHECK(all_gone(running.ranks, 1));
}

TEST_CASE("a rank stopped before it has started ends the job within startup_limit_s, and is named", "[fault][worker]") {
  LaunchFixture fixture(2000);
  fixture.use_real_worker_after("[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && kill -STOP $$");
  const SubprocessResult r = fixture.launch(four_ranks({"--set", "runtime.startup_limit_s=5"}), "", 90);
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(r.seconds < 5 + 15);
  CHECK_THAT(r.err, Contains("trainctl: hang: before the first step: rank 1 not ready") &&
                        Contains("the process is stopped (SIGSTOP or a debugger)"));
}

TEST_CASE("a disk that fills during a run ends it with the cause on the first line, and the run continues after",
          "[fault][worker]") {
  LaunchFixture fixture(100000);
  fixture.use_real_worker();
  std::filesystem::create_directories(fixture.run_dir());
  const SmallFileSystem disk(fixture.run_dir(), 80 << 20);
  if (!disk.mounted()) {
    WARN("skipped: a small file system could not be mounted here: " << disk.why_not());
    return;
  }
  for (const char* launcher : {"mpirun", "threads"}) {
    INFO(launcher);
    const std::vector<std::string> more = four_ranks({"--launcher", launcher, "--set", "checkpoint.at_end=false"});
    Subprocess process(fixture.command(more), fixture.options("", 90));
    const bool running = process.wait_for_output("step 1/", 40);
    disk.fill();
    const SubprocessResult r = process.wait();
    INFO(r.err);
    INFO(r.out << " exit " << r.exit_code);
    REQUIRE(running);
    CHECK(r.exit_code == 3);
    CHECK_THAT(r.err, Contains("trainctl: environment: rank 0 on ") && Contains("in write metrics") &&
                          Contains("metrics.jsonl") && Contains("No space left on device"));
    disk.free();
  }
  const auto before = static_cast<int64_t>(steps_of(fixture).size());
  const SubprocessResult more = fixture.launch(
      four_ranks({"--set", "checkpoint.at_end=false", "--set", "runtime.steps=" + std::to_string(before + 3)}), "", 90);
  INFO(more.err << more.out);
  CHECK(more.exit_code == 0);
  CHECK(steps_of(fixture) == one_to(before + 3));
}

TEST_CASE("a full disk takes the reserve of the checkpoints first, and says so; the last save needs no margin",
          "[fault][worker]") {
  LaunchFixture fixture(100000);
  fixture.use_real_worker();
  std::filesystem::create_directories(fixture.run_dir());
  const SmallFileSystem disk(fixture.run_dir(), 240 << 20);
  if (!disk.mounted()) {
    WARN("skipped: a small file system could not be mounted here: " << disk.why_not());
    return;
  }
  const auto ballast = fixture.run_dir() / "checkpoints" / "ballast";
  const auto comes = [](const std::function<bool()>& there) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!there() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return there();
  };
  const auto told = [&](const std::string& text) {
    return read_text(fixture.run_dir() / "events.jsonl").find(text) != std::string::npos;
  };
  Subprocess process(fixture.command(four_ranks({"--launcher", "threads", "--set", "checkpoint.every_steps=50"})),
                     fixture.options("", 90));
  const bool saved = comes([&] { return told("checkpoint of step 50: "); });
  const bool laid = std::filesystem::exists(ballast) && std::filesystem::file_size(ballast) == 16 << 20;
  disk.fill();
  const bool given_up = comes([&] { return told("the reserve of the checkpoints was given up"); });
  const bool skipped =
      comes([&] { return told(" skipped: ") && told(" free at "); });  // what was given up is no margin
  process.signal(SIGINT);
  const SubprocessResult r = process.wait();
  INFO(r.err);
  INFO(r.out << " exit " << r.exit_code);
  CHECK(saved);
  CHECK(laid);
  CHECK(given_up);
  CHECK(skipped);
  CHECK(r.exit_code == 75);
  const auto last = static_cast<int64_t>(steps_of(fixture).size());
  CHECK(steps_of(fixture) == one_to(last));
  CHECK(told("checkpoint of step " + std::to_string(last) + ": "));
}

TEST_CASE("a signal stops real ranks after a save with 75, and the run continues to the end", "[fault][worker]") {
  for (const int signal : {SIGINT, SIGTERM}) {
    LaunchFixture fixture(2000);
    fixture.use_real_worker();
    {
      RunningLaunch running(fixture, four_ranks({}));
      running.process.signal(signal);
      const SubprocessResult r = running.process.wait();
      INFO(r.err << r.out);
      CHECK(r.exit_code == 75);
      CHECK(all_gone(running.ranks, 1));
    }
    const auto before = static_cast<int64_t>(steps_of(fixture).size());
    const SubprocessResult more =
        fixture.launch(four_ranks({"--set", "runtime.steps=" + std::to_string(before + 3)}), "", 90);
    INFO(more.err << more.out);
    CHECK(more.exit_code == 0);
    CHECK(steps_of(fixture) == one_to(before + 3));
  }
}

TEST_CASE("a run told to go on from an older step stays on that branch, also after a crash before its first save",
          "[fault][worker]") {
  LaunchFixture fixture(6);
  fixture.use_real_worker();
  const std::vector<std::string> two = {"--ranks", "2", "--set", "parallelism.data_parallel=1"};
  const auto with = [&two](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    return more;
  };
  REQUIRE(fixture.launch(with({"--set", "checkpoint.every_steps=2"}), "", 90).exit_code == 0);
  const std::string older = (fixture.run_dir() / "checkpoints" / "step-00000002").string();
  {
    Subprocess process(
        fixture.command(with({"--resume", older, "--set", "checkpoint.every_steps=0", "--set", "runtime.steps=90000"})),
        fixture.options("", 90));
    REQUIRE(process.wait_for_output("step 3/", 40));
    for (const auto& [rank, pid] : fixture.running_ranks()) ::kill(pid, SIGKILL);
    CHECK(process.wait().exit_code == 4);
  }
  const SubprocessResult r = fixture.launch(with({"--set", "runtime.steps=8"}), "", 90);
  INFO(r.err << r.out);
  CHECK(r.exit_code == 0);
  CHECK_THAT(r.err, Contains("continues after step 2"));
  CHECK(steps_of(fixture) == one_to(8));
}

TEST_CASE("two quick signals, or the launcher's death, leave no real rank", "[fault][worker]") {
  LaunchFixture fixture(2000);
  fixture.use_real_worker();
  SECTION("two signals") {
    RunningLaunch running(fixture, four_ranks({}));
    running.process.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    running.process.signal(SIGINT);
    running.process.wait();
    CHECK(all_gone(running.ranks, 10));
  }
  SECTION("kill -9 of the launcher") {
    RunningLaunch running(fixture, four_ranks({}));
    running.process.signal(SIGKILL);
    running.process.wait();
    CHECK(all_gone(running.ranks, 10));
  }
  SECTION("kill -9 of the launcher, and the next launch at once: no step of the dying ranks is taken for its own") {
    RunningLaunch running(fixture, four_ranks({}));
    running.process.signal(SIGKILL);
    const SubprocessResult next = fixture.launch(four_ranks({"--set", "runtime.steps=20"}), "", 90);
    INFO(next.out << next.err);
    CHECK(next.exit_code == 0);
    CHECK_THAT(next.out, Contains("done: 20 steps"));
    CHECK(steps_of(fixture) == one_to(20));
    CHECK(all_gone(running.ranks, 0.1));
    running.process.wait();
  }
}

TEST_CASE("with checkpoint.stop_after_failures a run ends with 3 and the cause, without it it goes on",
          "[fault][worker]") {
  LaunchFixture fixture(4);
  fixture.use_real_worker();
  REQUIRE(fixture.launch(four_ranks({"--set", "checkpoint.every_steps=2"}), "", 90).exit_code == 0);
  // Nothing can be staged any more.
  const std::filesystem::path staging = fixture.run_dir() / "checkpoints/.staging";
  std::filesystem::remove_all(staging);
  std::ofstream(staging) << "in the way";
  const std::vector<std::string> on = {"--set", "runtime.steps=10",       "--set", "checkpoint.every_steps=1",
                                       "--set", "checkpoint.at_end=false"};
  auto strict = on;
  strict.insert(strict.end(), {"--set", "checkpoint.stop_after_failures=3"});
  const SubprocessResult stopped = fixture.launch(four_ranks(strict), "", 90);
  INFO(stopped.err << stopped.out);
  CHECK(stopped.exit_code == 3);
  const std::string first_line = stopped.err.substr(stopped.err.find("trainctl: environment"));
  CHECK_THAT(first_line.substr(0, first_line.find('\n')), Contains("3 saves in a row failed") && Contains(".staging"));
  CHECK(steps_of(fixture) == one_to(8));  // the third failure is told after step 7, and heard in step 8
  const SubprocessResult patient = fixture.launch(four_ranks(on), "", 90);
  INFO(patient.err << patient.out);
  CHECK(patient.exit_code == 0);
  CHECK(steps_of(fixture) == one_to(10));
}

TEST_CASE("a worker outside the planned world refuses, and writes nothing", "[fault][worker]") {
  LaunchFixture fixture(5);
  fixture.use_real_worker();
  REQUIRE(fixture.launch({"--ranks", "2", "--launcher", "threads"}, "", 90).exit_code == 0);
  std::filesystem::remove(fixture.run_dir() / "metrics.jsonl");
  std::filesystem::remove_all(fixture.run_dir() / "checkpoints");
  for (int i = 0; i < 2; ++i) {
    const SubprocessResult r =
        run({program("trainctl_worker"), "--launch", (fixture.run_dir() / "launch.json").string()});
    INFO(r.err);
    CHECK(r.exit_code != 0);
    CHECK(r.seconds < 10);
    CHECK_THAT(r.err, Contains("rank 0 of 1") && Contains("2 ranks"));
    CHECK_FALSE(std::filesystem::exists(fixture.run_dir() / "metrics.jsonl"));
    CHECK_FALSE(std::filesystem::exists(fixture.run_dir() / "checkpoints"));
  }
}

TEST_CASE("a loss that is not finite is told once, with the way on that fits what was saved", "[fault][worker]") {
  LaunchFixture fixture(6);
  fixture.use_real_worker();
  const std::vector<std::string> threads = {"--ranks", "2",     "--launcher",
                                            "threads", "--set", "optimizer.schedule.kind=constant"};
  const auto launch = [&](std::vector<std::string> more) {
    more.insert(more.begin(), threads.begin(), threads.end());
    return fixture.launch(more, "", 90);
  };
  const SubprocessResult first = launch({"--set", "optimizer.lr=1e30"});
  INFO(first.err);
  CHECK(first.exit_code == 4);
  CHECK_THAT(first.err, Contains("trainctl: numeric: rank ") && Contains("not finite") && !Contains("-nan"));
  const std::string line = first.err.substr(
      first.err.find("trainctl: numeric: "),
      first.err.find('\n', first.err.find("trainctl: numeric: ")) - first.err.find("trainctl: numeric: "));
  CHECK(count_of(line, "step 2") == 1);
  CHECK(count_of(line, " in step") == 0);
  CHECK_THAT(first.err, Contains("what to do: lower optimizer.lr") && Contains("no usable checkpoint") &&
                            !Contains("to continue from"));
  // A save that is still in flight is of a state before: it is ended.
  std::filesystem::remove_all(fixture.run_dir());
  const SubprocessResult saving = launch({"--set", "optimizer.lr=1e30", "--set", "checkpoint.every_steps=1", "--set",
                                          "checkpoint.write_limit_bytes_per_s=500000"});
  INFO(saving.err);
  CHECK(saving.exit_code == 4);
  CHECK_THAT(saving.err, Contains("trainctl: numeric: rank ") && Contains("step-00000001"));
  std::filesystem::remove_all(fixture.run_dir());
  REQUIRE(launch({"--set", "runtime.steps=2", "--set", "checkpoint.every_steps=1"}).exit_code == 0);
  const SubprocessResult later = launch({"--set", "optimizer.lr=1e30"});
  INFO(later.err);
  CHECK(later.exit_code == 4);
  CHECK_THAT(later.err, Contains("to continue from ") && Contains("step-00000002"));
}

TEST_CASE("a checkpoint of another model is refused with the keys to restore", "[fault][worker]") {
  LaunchFixture fixture(2);
  fixture.use_real_worker();
  const auto launch = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--ranks", "2", "--launcher", "threads"});
    return fixture.launch(more, "", 90);
  };
  REQUIRE(launch({}).exit_code == 0);
  const auto was = nlohmann::json::parse(read_text(fixture.run_dir() / "recipe.json"))["model"];
  for (const auto& [key, other] :
       std::vector<std::pair<std::string, int64_t>>{{"d_model", 2 * was["d_model"].get<int64_t>()},
                                                    {"layers", was["layers"].get<int64_t>() + 1},
                                                    {"d_ff", 2 * was["d_ff"].get<int64_t>()}}) {
    INFO(key);
    const SubprocessResult r =
        launch({"--set", "runtime.steps=4", "--set", "model." + key + "=" + std::to_string(other)});
    INFO(r.err);
    CHECK(r.exit_code == 5);
    CHECK_THAT(r.err, Contains("model." + key + " is " + std::to_string(other) + " here and " + was[key].dump()));
    CHECK_THAT(r.err, Contains("what to do: restore model." + key + " to " + was[key].dump()));
    CHECK(count_of(r.err, "what to do") == 1);
  }
}

}  // namespace trainctl::testing
