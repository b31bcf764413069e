// tests/fault/checkpoint/power_loss_test.cpp -- the power fails after any operation of a save, and of what was not
// synced any part may be on the disk.
#include <algorithm>
#include <set>

#include "base/units.h"
#include "checkpoint/format.h"
#include "fault/checkpoint/calls.h"
#include "fault/checkpoint/campaign.h"
#include "fault/checkpoint/crash_disk.h"
#include "fault/checkpoint/in_parallel.h"
#include "fault/checkpoint/scenario.h"
#include "fault/checkpoint/trace.h"
#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Fate = CrashDisk::Fate;

// One undisturbed save by all ranks below `disk`, as a write log. Everything that was there before is on the disk.
DiskLog record_save(const Scenario& scenario, const fs::path& scratch, const std::string& config) {
  const fs::path disk = scratch / "disk", folder = disk / "run" / "checkpoints";
  fs::create_directories(disk / "run");
  prepare(scenario, folder);
  const std::vector<DiskNode> before = read_tree(disk);
  std::string ranks;
  for (int64_t r = 0; r < scenario.world; ++r)
    ranks += fmt::format("'{}' save '{}' {} {} '{}' 1 '{}' none 0 & ", program("trainctl_save_probe"), folder.string(),
                         scenario.name, r, (scratch / "meeting").string(), config);
  std::string calls = "clone,clone3,fork,vfork";
  for (const SystemCall& call : kFileCalls) calls += "," + std::string(call.name);
  const std::string log = (scratch / "log").string();
  const SubprocessResult r =
      run(traced({"-xx", "-s", "100000000", "-o", log, "-e", "trace=" + calls}, {"sh", "-c", ranks + "wait"}));
  if (r.exit_code != 0 || count_of(r.out, " ok") != scenario.world)
    throw std::runtime_error("an undisturbed save failed: " + r.out + r.err);
  return disk_log_of(read_text(log), disk, before);
}

// The number of operations after which S10 is complete: COMMITTED has its name, and the folder is synced.
size_t committed_after(const DiskLog& log) {
  int folder = -1;
  for (size_t i = 0; i < log.ops.size(); ++i) {
    const DiskOp& op = log.ops[i];
    if (op.kind == DiskOp::Kind::rename && op.new_name == kCommittedName) folder = op.new_dir;
    if (op.kind == DiskOp::Kind::sync && op.inode == folder) return i + 1;
  }
  throw std::runtime_error("the save never synced COMMITTED");
}

// All lost, all kept, all torn; then at random; in the campaign also each one alone lost or kept.
std::vector<std::vector<Fate>> fates_of(size_t changes, std::mt19937_64& random) {
  std::vector<std::vector<Fate>> all = {std::vector<Fate>(changes, Fate::lost), std::vector<Fate>(changes, Fate::kept),
                                        std::vector<Fate>(changes, Fate::torn)};
  for (size_t i = 0; i < changes && is_campaign(); ++i)
    for (const Fate rest : {Fate::lost, Fate::kept}) {
      all.emplace_back(changes, rest);
      all.back()[i] = rest == Fate::lost ? Fate::kept : Fate::lost;
    }
  for (int i = 0; i < (is_campaign() ? 300 : 2) && changes > 0; ++i) {
    all.emplace_back();
    for (size_t c = 0; c < changes; ++c) all.back().push_back(static_cast<Fate>(random() % 3));
  }
  return all;
}

std::string fault_after_power_loss(const Scenario& scenario, const Judgement& verdict, bool committed) {
  std::string fault = verdict.fault;
  const auto is_usable = [&](const KnownState& state) {
    return std::find(verdict.usable.begin(), verdict.usable.end(), state) != verdict.usable.end();
  };
  if (committed && !is_usable(scenario.saved)) fault += "it was committed, and is not usable\n";
  for (const KnownState& state : scenario.before)
    if (!committed && !is_usable(state)) fault += fmt::format("step {} was lost before the commit\n", state.step);
  return fault;
}

}  // namespace

TEST_CASE(
    "whatever a power cut leaves of a save, a usable checkpoint is right, the old one stays until the commit, and "
    "the new one is there from then on",
    "[fault][checkpoint]") {
  int64_t tried = 0, passed = 0;
  for (const std::string& config : sweep_configs())
    for (const Scenario& scenario : chosen_scenarios()) {
      ScratchFolder scratch;
      const DiskLog log = record_save(scenario, scratch.path(), config);
      const size_t commit = committed_after(log);
      std::mt19937_64 random(20);
      std::set<std::string> judged;  // the same tree may be left by many cuts
      for (CrashDisk crash(log);; crash.advance()) {
        const bool committed = crash.done() >= commit;
        std::vector<std::vector<DiskNode>> trees;
        for (const auto& fates : fates_of(crash.open_questions(), random)) {
          std::vector<DiskNode> tree = crash.tree_after(fates, random);
          if (judged.insert(digest_of(tree) + (committed ? "+" : "-")).second) trees.push_back(std::move(tree));
        }
        const std::vector<std::string> faults = in_parallel(trees.size(), [&](int lane, size_t i) {
          const fs::path disk = scratch.path() / fmt::format("after-{}", lane);
          fs::remove_all(disk);
          write_tree(trees[i], 0, disk);
          const Judgement verdict =
              judge(scenario, disk / "run" / "checkpoints", (static_cast<size_t>(tried) + i) % 20 == 0);
          return fault_after_power_loss(scenario, verdict, committed);
        });
        for (const std::string& fault : faults) {
          ++tried;
          passed += fault.empty();
          CAPTURE(config, scenario.name, crash.done(), committed);
          CHECK(fault == "");
        }
        if (crash.at_end()) break;
      }
      CHECK(commit < log.ops.size());
    }
  report_result("a power cut during a save (distinct states of the disk)", tried, passed);
  CHECK(tried >= (is_campaign() ? 10000 : 300));
}

}  // namespace trainctl::testing
