// tests/fault/launch_fault_test.cpp -- what the launcher does when ranks fail, hang or are to stop (fake workers).
#include <csignal>
#include <thread>

#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

using Catch::Contains;

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

// All pids are dead within `limit_s`.
bool all_gone(const std::vector<pid_t>& pids, double limit_s) {
  for (int i = 0; i < static_cast<int>(limit_s * 20); ++i) {
    bool any = false;
    for (const pid_t pid : pids) any = any || is_alive(pid);
    if (!any) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace

TEST_CASE("a run ends with 0, one line per step on standard output, and a complete run directory", "[fault][launch]") {
  for (const char* launcher : {"mpirun", "threads"}) {
    INFO(launcher);
    const LaunchFixture fixture(6);
    const SubprocessResult r = fixture.launch({"--ranks", "4", "--launcher", launcher});
    INFO(r.err << r.out);
    REQUIRE(r.exit_code == 0);
    for (int step = 1; step <= 6; ++step) CHECK(count_of(r.out, "step " + std::to_string(step) + "/6 ") == 1);
    for (const char* file : {"recipe.json", "plan.json", "launch.json", "metrics.jsonl", "logs/launcher.log"})
      CHECK(std::filesystem::exists(fixture.run_dir() / file));
    CHECK(all_gone(fixture.worker_pids(), 0.5));
  }
}

TEST_CASE("a rank's error report becomes the last words of the launcher, with rank, host, step and operation",
          "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r = fixture.launch({"--ranks", "4"}, "error:2:numeric stuck:1");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(r.seconds < 10);
  CHECK_THAT(r.err, Contains("trainctl: numeric: rank 2 on localhost, step 3, in forward layers.1 attention: made up"));
  CHECK_THAT(last_line(r.err), Contains("what to do: lower optimizer.lr"));
  CHECK(fixture.worker_pids().size() == 4);
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("the kind of a rank's error decides the exit code", "[fault][launch]") {
  for (const auto& [kind, code] : {std::pair("environment", 3), {"checkpoint", 5}, {"input", 2}, {"memory", 4}}) {
    INFO(kind);
    const LaunchFixture fixture(1000);
    const SubprocessResult r =
        fixture.launch({"--ranks", "2", "--launcher", "threads"}, std::string("error:0:") + kind);
    CHECK(r.exit_code == code);
  }
}

TEST_CASE("a rank that is killed ends the job in under 10 s, and is named with its signal", "[fault][launch]") {
  for (const auto& [signal, words] : {std::pair("9", "SIGKILL"), {"11", "SIGSEGV"}, {"6", "SIGABRT"}}) {
    const LaunchFixture fixture(1000);
    const SubprocessResult r = fixture.launch({"--ranks", "4"}, std::string("say:1 kill:1:") + signal);
    INFO(r.err);
    CHECK(r.exit_code == 4);
    CHECK(r.seconds < 10);
    CHECK_THAT(r.err, Contains("trainctl: rank_failed: rank 1 on "));
    CHECK_THAT(r.err, Contains(words));
    CHECK_THAT(r.err, Contains("the last words of rank 1"));
    CHECK_THAT(last_line(r.err), Contains("what to do: "));
    CHECK(all_gone(fixture.worker_pids(), 0.5));
  }
}

TEST_CASE("the death of the one process of thread ranks is told with its signal", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r = fixture.launch({"--ranks", "2", "--launcher", "threads"}, "kill:0:9");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK_THAT(r.err, Contains("all 2 ranks") && Contains("SIGKILL") && Contains("out-of-memory"));
}

TEST_CASE("a rank that exits without a report ends the job, and its exit code is told", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r = fixture.launch({"--ranks", "4"}, "exit:3:41");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(r.seconds < 10);
  CHECK_THAT(r.err, Contains("rank 3") && Contains("exit code 41"));
}

TEST_CASE("a job that does not end by itself after an error report is ended, deaf ranks included", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  // mpirun is told nothing: the failing process stays, as if its abort were stuck.
  const SubprocessResult r = fixture.launch({"--ranks", "2", "--launcher", "threads"}, "deaf:0 hang:0:0 stuck:0");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(r.seconds < 10);
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("hang reports are merged: the operation, its group, who entered and who did not", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r = fixture.launch({"--ranks", "4"}, "hang:0:1 say:1 stuck:1 hang:2:1.1 hang:3:1.1");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK_THAT(r.err, Contains("trainctl: hang: step 3, forward head: all_reduce #57 in the tensor group"));
  CHECK_THAT(r.err, Contains("entered by ranks 0, 2, 3; not by rank 1"));
  CHECK_THAT(r.err, Contains("the last words of rank 1"));
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("a rank that never gets ready ends the job within startup_limit_s, and is named", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r = fixture.launch({"--ranks", "4", "--set", "runtime.startup_limit_s=4"}, "unready:2");
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK(r.seconds < 4 + 8);
  CHECK_THAT(r.err, Contains("trainctl: hang: before the first step: rank 2 not ready") &&
                        Contains("of 4 ranks 0 gave no sign, 1 had started, 3 were ready"));
  CHECK_THAT(last_line(r.err), Contains("runtime.startup_limit_s"));
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("one signal before the ranks are ready ends the job: there is nothing to save", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  Subprocess process(fixture.command({"--ranks", "2", "--launcher", "threads"}), fixture.options("unready:0"));
  for (int i = 0; i < 200 && fixture.worker_pids().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE_FALSE(fixture.worker_pids().empty());
  process.signal(SIGINT);
  const SubprocessResult r = process.wait();
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK_THAT(r.err, Contains("SIGINT before every rank was ready") && Contains("nothing is lost"));
  CHECK_FALSE(std::filesystem::exists(fixture.run_dir() / "stop.request"));
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("a process that is stopped while nobody waits for it ends the job after watchdog_s", "[fault][launch]") {
  const LaunchFixture fixture(2000);
  Subprocess process(fixture.command({"--ranks", "2", "--launcher", "threads", "--set", "runtime.watchdog_s=1"}),
                     fixture.options(""));
  REQUIRE(process.wait_for_output("step 2/", 20));
  REQUIRE(fixture.worker_pids().size() == 1);
  ::kill(fixture.worker_pids().front(), SIGSTOP);
  const SubprocessResult r = process.wait();
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK_THAT(r.err, Contains("trainctl: hang: ") && Contains("has been stopped"));
  CHECK(all_gone(fixture.worker_pids(), 0.5));
}

TEST_CASE("a rank that can write no report is heard through what it prints", "[fault][launch]") {
  for (const char* launcher : {"mpirun", "threads"}) {
    INFO(launcher);
    const LaunchFixture fixture(1000);
    const SubprocessResult r = fixture.launch({"--ranks", "2", "--launcher", launcher}, "mute:0:environment");
    INFO(r.err);
    CHECK(r.exit_code == 3);
    CHECK_THAT(r.err, Contains("trainctl: environment: rank 0 on localhost, step 3, in write metrics: no space"));
  }
}

TEST_CASE("an error explains the hangs of other ranks, whoever reported first", "[fault][launch]") {
  const LaunchFixture fixture(1000);
  const SubprocessResult r =
      fixture.launch({"--ranks", "3", "--set", "parallelism.tensor_parallel=1", "--set", "runtime.global_batch_size=3"},
                     "hang:0:0 hang:1:0 error:2:memory");
  INFO(r.err);
  CHECK_THAT(r.err, Contains("trainctl: memory: rank 2"));
}

TEST_CASE("one signal stops the job after a save with exit code 75, and the same command continues it",
          "[fault][launch]") {
  for (const char* launcher : {"mpirun", "threads"}) {
    INFO(launcher);
    const LaunchFixture fixture(60);
    const std::vector<std::string> more = {"--ranks", "4", "--launcher", launcher};
    SubprocessResult r;
    {
      Subprocess process(fixture.command(more), fixture.options("late:1:0.2"));
      REQUIRE(process.wait_for_output("step 5/60", 20));
      process.signal(SIGINT);
      r = process.wait();
    }
    INFO(r.err << r.out);
    CHECK(r.exit_code == 75);
    CHECK_THAT(r.out, Contains("saved; to continue: the same command with --run-dir"));
    CHECK(all_gone(fixture.worker_pids(), 0.5));

    const SubprocessResult again = fixture.launch(more);
    INFO(again.err << again.out);
    CHECK(again.exit_code == 0);
    CHECK(count_of(again.out, "step 5/60 ") == 0);  // what the first attempt did is not shown again
    CHECK(count_of(again.out, "step 60/60 ") == 1);
    CHECK(count_of(read_text(fixture.run_dir() / "metrics.jsonl"), "\n") == 60);
  }
}

TEST_CASE("a second signal ends everything within seconds", "[fault][launch]") {
  const LaunchFixture fixture(2000);
  Subprocess process(fixture.command({"--ranks", "4"}),
                     fixture.options("deaf:1 late:0:1000 late:1:1000 late:2:1000 late:3:1000"));
  REQUIRE(process.wait_for_output("step 5/", 20));
  process.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  process.signal(SIGINT);
  const SubprocessResult r = process.wait();
  INFO(r.err);
  CHECK(r.exit_code == 4);
  CHECK_FALSE(r.timed_out);
  CHECK(fixture.worker_pids().size() == 4);
  CHECK(all_gone(fixture.worker_pids(), 0.5));
  CHECK_THAT(r.err, Contains("ended by a second signal"));
}

TEST_CASE("kill -9 of the launcher leaves no process within 10 s, and the lock is free again", "[fault][launch]") {
  for (const char* launcher : {"mpirun", "threads"}) {
    INFO(launcher);
    const LaunchFixture fixture(2000);
    {
      Subprocess process(fixture.command({"--ranks", "4", "--launcher", launcher}), fixture.options("deaf:0 deaf:1"));
      REQUIRE(process.wait_for_output("step 5/", 20));
      process.signal(SIGKILL);
      process.wait();
    }
    CHECK_FALSE(fixture.worker_pids().empty());
    CHECK(all_gone(fixture.worker_pids(), 10));
    const SubprocessResult again = fixture.launch({"--ranks", "4", "--launcher", launcher, "--set", "runtime.steps=3"});
    INFO(again.err);
    CHECK(again.exit_code == 0);
  }
}

TEST_CASE("a second launcher is refused by the lock of a running one, which it names", "[fault][launch]") {
  const LaunchFixture fixture(2000);
  Subprocess process(fixture.command({"--ranks", "2", "--launcher", "threads"}), fixture.options(""));
  REQUIRE(process.wait_for_output("step 1/", 20));
  const SubprocessResult second = fixture.launch({"--ranks", "2", "--launcher", "threads"});
  INFO(second.err);
  CHECK(second.exit_code == 3);
  CHECK_THAT(second.err, Contains("in use by another launcher (pid " + std::to_string(process.pid()) + " "));
}

TEST_CASE("ranks that end well without a step are a failure, unless all steps were done before", "[fault][launch]") {
  const LaunchFixture fixture(4);
  const SubprocessResult r = fixture.launch({"--ranks", "2", "--launcher", "threads"}, "silent:0");
  CHECK(r.exit_code == 4);
  CHECK_THAT(r.err, Contains("after step 0 of 4"));
  CHECK(fixture.launch({"--ranks", "2", "--launcher", "threads"}).exit_code == 0);
  const SubprocessResult done = fixture.launch({"--ranks", "2", "--launcher", "threads"}, "silent:0");
  CHECK(done.exit_code == 0);
  CHECK_THAT(done.out, Contains("nothing to do"));
}

}  // namespace trainctl::testing
