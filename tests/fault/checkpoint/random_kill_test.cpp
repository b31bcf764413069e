// tests/fault/checkpoint/random_kill_test.cpp -- real runs killed at random moments, again and again, with one
// checkpoint kept: there is always one to go on from, and the run ends with the losses of a run that was left alone.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "fault/checkpoint/campaign.h"
#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kSteps = 60;

struct Runs {
  LaunchFixture fixture{kSteps};
  std::string launcher;
  std::mt19937_64 random{7};

  explicit Runs(std::string which) : launcher(std::move(which)) { fixture.use_real_worker(); }

  fs::path folder(const std::string& name) const { return fixture.folder.path() / name; }

  std::vector<std::string> command(const std::string& name) const {
    return {program("trainctl"),
            "launch",
            fixture.recipe,
            "--topology",
            fixture.topology,
            "--run-dir",
            folder(name).string(),
            "--worker",
            fixture.worker,
            "--oversubscribe",
            "--ranks",
            "2",
            "--launcher",
            launcher,
            "--set",
            "checkpoint.every_steps=2",
            "--set",
            "checkpoint.keep=1"};
  }
  SubprocessOptions options() const { return {.directory = fixture.folder.path(), .timeout_s = 240}; }

  // The processes of the run `name`: launcher, mpirun, ranks.
  std::vector<pid_t> processes(const std::string& name, bool ranks_only) const {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const std::string number = entry.path().filename().string();
      if (number.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string words = read_text(entry.path() / "cmdline");
      if (words.find(folder(name).string()) == std::string::npos) continue;
      if (!ranks_only || words.starts_with(fixture.worker)) found.push_back(std::stoi(number));
    }
    return found;
  }

  // kill -9 of one rank, or of all processes in an arbitrary order. False when there was none.
  bool kill_some(const std::string& name) {
    std::vector<pid_t> ranks = processes(name, true), all = processes(name, false);
    if (all.empty()) return false;
    if (!ranks.empty() && random() % 2 == 0) return ::kill(ranks[random() % ranks.size()], SIGKILL) == 0;
    std::shuffle(all.begin(), all.end(), random);
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
    return true;
  }

  bool wait_until_gone(const std::string& name) const {
    for (int i = 0; i < 600; ++i) {
      if (processes(name, false).empty()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  // Usable training checkpoints by `trainctl checkpoint list --json`; the greatest step goes to `newest`.
  int64_t usable(const std::string& name, int64_t& newest) const {
    const SubprocessResult r =
        run({program("trainctl"), "checkpoint", "list", (folder(name) / "checkpoints").string(), "--json"});
    int64_t count = 0;
    if (r.exit_code != 0) return 0;
    for (const auto& c : nlohmann::json::parse(r.out)["checkpoints"])
      if (c["state"] == "usable" && c["kind"] == "training") {
        ++count;
        newest = std::max(newest, c["step"].get<int64_t>());
      }
    return count;
  }

  // step -> the loss, in all its digits.
  std::map<int64_t, std::string> losses(const std::string& name) const {
    std::map<int64_t, std::string> all;
    std::istringstream in(read_text(folder(name) / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const auto value = nlohmann::json::parse(line);
      if (value.contains("loss")) all[value["step"].get<int64_t>()] = value["loss"].dump();
    }
    return all;
  }
};

void kill_again_and_again(const std::string& launcher, int64_t kills_wanted) {
  Runs runs(launcher);
  {
    const SubprocessResult r = run(runs.command("alone"), runs.options());
    INFO(r.err << r.out);
    REQUIRE(r.exit_code == 0);
  }
  const std::map<int64_t, std::string> alone = runs.losses("alone");
  REQUIRE(alone.size() == static_cast<size_t>(kSteps));
  int64_t kills = 0, held = 0, finished = 0;
  for (int round = 0; kills < kills_wanted; ++round) {
    const std::string name = fmt::format("round-{}", round);
    int64_t newest = -1;
    bool had_one = false;
    for (bool at_end = false; !at_end;) {
      CAPTURE(launcher, round, kills, newest);
      Subprocess process(runs.command(name), runs.options());
      bool killed = false;
      if (kills < kills_wanted) {
        if (runs.random() % 4 != 0)
          process.wait_for_output(
              fmt::format("step {}/", std::max<int64_t>(newest, 0) + 1 + static_cast<int64_t>(runs.random() % 8)), 60);
        std::this_thread::sleep_for(std::chrono::milliseconds(runs.random() % 60));
        killed = is_alive(process.pid()) && runs.kill_some(name);
      }
      const SubprocessResult r = process.wait();
      INFO(r.err << r.out);
      REQUIRE_FALSE(r.timed_out);
      REQUIRE(runs.wait_until_gone(name));
      const int64_t before = newest;
      const int64_t count = fs::exists(runs.folder(name) / "checkpoints") ? runs.usable(name, newest) : 0;
      had_one = had_one || count > 0;
      if (killed) {
        ++kills;
        const bool kept = (count >= 1 || !had_one) && newest >= before;
        held += kept;
        CHECK(kept);
      } else {
        REQUIRE(r.exit_code == 0);
      }
      at_end = r.exit_code == 0;
    }
    ++finished;
    CHECK(runs.losses(name) == alone);
    fs::remove_all(runs.folder(name));
  }
  report_result("kill -9 of a run at a random moment, " + launcher, kills, held);
  report_result("  runs ended after kills, losses bit for bit those of a run left alone", finished, finished);
}

}  // namespace

TEST_CASE("killed at random moments, a run of threads always has a checkpoint and ends with the same losses",
          "[fault][checkpoint]") {
  kill_again_and_again("threads", is_campaign() ? 100 : 4);
}

TEST_CASE("killed at random moments, a run of MPI processes always has a checkpoint and ends with the same losses",
          "[fault][checkpoint]") {
  kill_again_and_again("mpirun", is_campaign() ? 100 : 2);
}

}  // namespace trainctl::testing
