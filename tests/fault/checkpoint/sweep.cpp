// tests/fault/checkpoint/sweep.cpp -- enumerating the calls of a save, and repeating it.
#include "fault/checkpoint/sweep.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "base/units.h"
#include "fault/checkpoint/calls.h"
#include "fault/checkpoint/trace.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

std::string all_calls() {
  std::string names;
  for (const SystemCall& call : kFileCalls) names += (names.empty() ? "" : ",") + std::string(call.name);
  return names;
}

bool is_empty_call(const TracedCall& call) {
  return call.arguments.starts_with("-1") || call.arguments.starts_with("0xffffffff") ||
         call.arguments.starts_with("4294967295");
}

// What the main thread calls after its empty ones, and all that the others do; not what prints the outcome.
std::vector<CallPoint> save_path(int64_t rank, const std::vector<TracedCall>& calls) {
  const int64_t main_thread = calls.front().thread;
  bool begun = false;
  std::vector<CallPoint> points;
  for (const TracedCall& call : calls) {
    begun = begun || is_empty_call(call);
    const bool is_main = call.thread == main_thread;
    if (!begun || is_empty_call(call) || (is_main && call.arguments.starts_with("1,"))) continue;
    if (is_main ? call.number > kWriterThreadFirstCall : call.number <= kWriterThreadFirstCall)
      throw std::runtime_error("the numbers of the threads overlap: raise kWriterThreadFirstCall");
    const CallPoint point{rank, call.name, call.number};
    const bool known = std::any_of(points.begin(), points.end(), [&](const CallPoint& p) {
      return p.call == point.call && p.number == point.number;
    });
    if (!known) points.push_back(point);
  }
  return points;
}

}  // namespace

Sweep::Sweep(const Scenario& scenario, const std::string& config) : scenario_(scenario), config_(config) {
  prepare(scenario, scratch_.path() / "prepared");
  const std::string log = (scratch_.path() / "log").string();
  for (int64_t rank = 0; rank < scenario.world; ++rank) {
    const SaveRun undisturbed = run(0, {rank, "all", 0}, {"-o", log, "-e", "trace=" + all_calls()}, 1, 20);
    for (const SubprocessResult& r : undisturbed.ranks)
      if (r.exit_code != 0 || r.out.find(" ok") == std::string::npos)
        throw std::runtime_error("an undisturbed save failed: " + r.out + r.err);
    const std::vector<CallPoint> points = save_path(rank, parse_trace(read_text(log)));
    points_.insert(points_.end(), points.begin(), points.end());
  }
}

std::vector<std::string> Sweep::command(const fs::path& place, int64_t rank, const CallPoint& meant,
                                        int64_t saves) const {
  return {program("trainctl_save_probe"),
          "save",
          (place / "checkpoints").string(),
          scenario_.name,
          std::to_string(rank),
          (place / "meeting").string(),
          std::to_string(saves),
          config_,
          meant.call,
          std::to_string(meant.number)};
}

SaveRun Sweep::run(int lane, const CallPoint& meant, const std::vector<std::string>& options, int64_t saves,
                   double patience_s) const {
  const fs::path place = scratch_.path() / fmt::format("lane-{}", lane);
  SaveRun result;
  result.folder = place / "checkpoints";
  fs::remove_all(place);
  fs::create_directories(place);
  if (fs::exists(scratch_.path() / "prepared"))
    fs::copy(scratch_.path() / "prepared", result.folder, fs::copy_options::recursive);
  result.ranks.resize(static_cast<size_t>(scenario_.world));
  std::vector<std::unique_ptr<Subprocess>> others(result.ranks.size());
  for (size_t r = 0; r < others.size(); ++r)
    if (static_cast<int64_t>(r) != meant.rank)
      others[r] = std::make_unique<Subprocess>(command(place, static_cast<int64_t>(r), {meant.rank, "none", 0}, saves),
                                               SubprocessOptions{.timeout_s = patience_s});
  result.ranks[static_cast<size_t>(meant.rank)] =
      testing::run(traced(options, command(place, meant.rank, meant, saves)), SubprocessOptions{.timeout_s = 60});
  for (size_t r = 0; r < others.size(); ++r)
    if (others[r]) result.ranks[r] = others[r]->wait();
  return result;
}

Judgement Sweep::judge(const fs::path& folder) const {
  const SubprocessResult r = testing::run({program("trainctl_save_probe"), "judge", folder.string(), scenario_.name});
  Judgement verdict;
  unsigned salt = 0;
  long long step = 0;
  if (std::sscanf(r.out.c_str(), "found %lld %u", &step, &salt) != 2)
    return {.fault = "the judge died: " + r.out + r.err};
  verdict.found = {step, salt};
  verdict.fault = r.out.substr(std::min(r.out.find('\n') + 1, r.out.size()));
  if (r.exit_code != 0 && verdict.fault.empty()) verdict.fault = r.err;
  return verdict;
}

}  // namespace trainctl::testing
