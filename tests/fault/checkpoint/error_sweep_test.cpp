// tests/fault/checkpoint/error_sweep_test.cpp -- the kernel refuses a system call of a save, each in turn: the save is
// then whole or reported with its cause, never wrong; training goes on and the next save works.
#include <cstring>
#include <map>

#include "base/units.h"
#include "checkpoint/scan.h"
#include "fault/checkpoint/campaign.h"
#include "fault/checkpoint/in_parallel.h"
#include "fault/checkpoint/sweep.h"
#include "support/catch.h"
#include "support/launch_fixture.h"

namespace trainctl::testing {
namespace {

struct Lie {
  std::string injection;  // strace's: "error=EIO", "retval=0"
  std::string message;    // what the reason of a failed save must contain; "" for no words of the kernel's
  bool lasting = false;   // from this call on, instead of once
};

std::vector<Lie> errors(const std::vector<int>& codes, bool lasting = false) {
  std::vector<Lie> lies;
  for (const int code : codes)  // after EAGAIN the writer tries again, and then says that nothing is accepted
    lies.push_back({std::string("error=") + strerrorname_np(code), code == EAGAIN ? "" : std::strerror(code), lasting});
  return lies;
}

// What the call may say, by its manual page.
const std::vector<Lie>& lies_of(const std::string& call) {
  static const std::map<std::string, std::vector<Lie>> table = [] {
    std::map<std::string, std::vector<Lie>> t;
    const auto add = [&t](const std::string& name, const std::vector<Lie>& more) {
      t[name].insert(t[name].end(), more.begin(), more.end());
    };
    for (const char* name : {"pwrite64", "pwritev", "write"}) {
      add(name, errors({ENOSPC, EDQUOT, EIO, EINTR, EAGAIN, EFBIG}));
      add(name, {{"retval=0", "", false}});
      add(name, errors({ENOSPC, EIO}, true));
    }
    for (const char* name : {"fsync", "fdatasync"}) {
      add(name, errors({EIO, ENOSPC, EDQUOT, EINTR}));
      add(name, errors({EIO}, true));
      add(name, {{"error=EIO:delay_exit=100000", std::strerror(EIO), false}});  // other ranks go on meanwhile
    }
    add("fallocate", errors({ENOSPC, EDQUOT, EIO, EINTR, EOPNOTSUPP, EFBIG}));
    add("fallocate", errors({ENOSPC}, true));
    for (const char* name : {"rename", "renameat2", "mkdir"}) add(name, errors({ENOSPC, EDQUOT, EIO, EINTR, EROFS}));
    add("renameat2", errors({EINVAL}));
    add("openat", errors({ENOSPC, EDQUOT, EIO, EINTR, EMFILE}));
    add("ftruncate", errors({EIO, EINTR, EFBIG}));
    add("io_uring_setup", errors({ENOSYS, EPERM, ENOMEM}));
    add("io_uring_register", errors({EINVAL, ENOMEM}));
    add("io_uring_enter", errors({EINTR, EAGAIN, EBUSY, EIO}));
    add("read", errors({EIO, EINTR}));
    add("pread64", errors({EIO, EINTR}));
    return t;
  }();
  static const std::vector<Lie> others = errors({EIO});
  const auto found = table.find(call);
  return found == table.end() ? others : found->second;
}

struct Attempt {
  CallPoint point;
  Lie lie;
};

std::string injection_of(const Attempt& a) {
  return fmt::format("{}:{}:when={}{}", a.point.call, a.lie.injection, a.point.number, a.lie.lasting ? "+" : "");
}

struct Line {
  std::string word, reason;  // "ok" | "failed" | "skipped"
};

std::vector<Line> lines_of(const std::string& out) {
  std::vector<Line> lines;
  for (size_t begin = 0; begin < out.size();) {
    const size_t end = std::min(out.find('\n', begin), out.size());
    const std::string line = out.substr(begin, end - begin);
    begin = end + 1;
    const size_t space = line.find(' '), colon = std::min(line.find(": ", space), line.size());
    lines.push_back({line.substr(space + 1, colon - space - 1), line.substr(std::min(colon + 2, line.size()))});
  }
  return lines;
}

// What does not hold after a save that met `attempt.lie`.
std::string fault_of(const Sweep& sweep, const Attempt& attempt, const SaveRun& run) {
  const Scenario& scenario = sweep.scenario();
  std::string fault;
  std::vector<Line> first;
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    const SubprocessResult& result = run.ranks[r];
    const std::vector<Line> lines = lines_of(result.out);
    if (result.exit_code != 0 || lines.size() != (attempt.lie.lasting ? 1 : 2))
      return fmt::format("rank {} did not go on: exit code {}, {}{}", r, result.exit_code, result.out, result.err);
    first.push_back(lines[0]);
    if (!attempt.lie.lasting && lines[1].word != "ok")
      fault += fmt::format("the save after it on rank {}: {}: {}\n", r, lines[1].word, lines[1].reason);
  }
  const bool saved = first[0].word == "ok";
  std::string reasons;
  for (const Line& line : first) {
    if ((line.word == "ok") != saved) fault += "the ranks disagree\n";
    if (!saved && line.reason.empty()) fault += "a rank gives no reason\n";
    reasons += line.reason + "\n";
  }
  if (!saved) {
    const auto tells = [&](const std::string& what) { return reasons.find(what) != std::string::npos; };
    if (!tells(attempt.lie.message)) fault += "the cause is not told: " + reasons;
    if (!tells(fmt::format("rank {}", attempt.point.rank))) fault += "the rank is not told: " + reasons;
    if (!tells(run.folder.parent_path().string())) fault += "no file is named: " + reasons;
  }
  const std::filesystem::path at_once =
      attempt.lie.lasting ? run.folder : std::filesystem::path(run.folder.string() + kAfterFirstSave);
  // The step beyond a rollback stays the newest until the commit, and may stay so when only its mark failed.
  const Judgement verdict = sweep.judge(at_once);
  fault += verdict.fault;
  const bool has_new = verdict.found == scenario.saved;
  if (saved && !has_new && scenario.rolled_back_to < 0) fault += "the save said ok, and is not what is found\n";
  if (!saved && !has_new && !scenario.before.empty() && verdict.found != scenario.before.back())
    fault += fmt::format("step {} was lost to a failed save\n", scenario.before.back().step);
  if (attempt.lie.lasting) return fault;
  const Judgement last = sweep.judge(run.folder);
  fault += last.fault;
  if (last.found != saved_next(scenario)) fault += "the save after it is not what is found\n";
  return fault;
}

}  // namespace

TEST_CASE("refused at any system call, a save is whole or reported, training goes on, and the next one works",
          "[fault][checkpoint]") {
  int64_t tried = 0, passed = 0;
  std::atomic<int64_t> failed{0};
  for (const std::string& config : sweep_configs())
    for (const Scenario& scenario : chosen_scenarios()) {
      const Sweep sweep(scenario, config);
      std::vector<Attempt> attempts;
      for (const CallPoint& point : sweep.points())
        for (const Lie& lie : lies_of(point.call)) attempts.push_back({point, lie});
      attempts = sample_of(attempts, 10);
      const std::vector<std::string> faults = in_parallel(attempts.size(), [&](int lane, size_t i) {
        const Attempt& attempt = attempts[i];
        const CallPoint& point = attempt.point;
        const SaveRun run = sweep.run(
            lane, point, {"-o", "/dev/null", "-e", "trace=" + point.call, "-e", "inject=" + injection_of(attempt)},
            attempt.lie.lasting ? 1 : 2, 40);
        failed += count_of(run.ranks.front().out, " failed: ") > 0;
        return fault_of(sweep, attempt, run);
      });
      for (size_t i = 0; i < attempts.size(); ++i) {
        ++tried;
        passed += faults[i].empty();
        CAPTURE(config, scenario.name, attempts[i].point.rank, injection_of(attempts[i]));
        CHECK(faults[i] == "");
      }
    }
  report_result("an error at a system call of a save", tried, passed);
  report_result("  of these, saves that failed, rank, file and cause told", tried, failed);
  CHECK(failed >= tried / 4);  // the others are tried again, need not succeed, or come after the commit
}

}  // namespace trainctl::testing
