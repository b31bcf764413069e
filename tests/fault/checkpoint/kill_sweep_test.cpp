// tests/fault/checkpoint/kill_sweep_test.cpp -- kill -9 at every system call of a save, on every rank.
#include "base/units.h"
#include "fault/checkpoint/campaign.h"
#include "fault/checkpoint/sweep.h"
#include "support/catch.h"

namespace trainctl::testing {

TEST_CASE("killed at any system call of a save, on any rank, a run finds a whole checkpoint and saves again",
          "[fault][checkpoint]") {
  int64_t tried = 0, passed = 0, killed = 0;
  for (const std::string& config : sweep_configs())
    for (const Scenario& scenario : chosen_scenarios()) {
      Sweep sweep(scenario, config);
      for (const CallPoint& point : sample_of(sweep.points(), 10)) {
        const std::string inject = fmt::format("inject={}:signal=KILL:when={}", point.call, point.number);
        const SaveRun run =
            sweep.run(point.rank, point.call, {"-o", "/dev/null", "-e", "trace=" + point.call, "-e", inject}, 1, 1);
        const Judgement verdict = sweep.judge(run.folder);
        ++tried;
        killed += run.ranks[static_cast<size_t>(point.rank)].exit_code == 128 + 9;
        passed += verdict.fault.empty();
        CAPTURE(config, scenario.name, point.rank, point.call, point.number);
        CHECK(verdict.fault == "");
      }
    }
  report_result("kill -9 at a system call of a save", tried, passed);
  report_result("  of these, points at which the process did die", tried, killed);
  CHECK(killed >= tried * 95 / 100);  // the others poll, and may need one call less
  if (is_campaign()) CHECK(killed >= 500);
}

}  // namespace trainctl::testing
