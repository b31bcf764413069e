// tests/fault/checkpoint/kill_sweep_test.cpp -- kill -9 at every system call of a save, on every rank.
#include "base/units.h"
#include "fault/checkpoint/campaign.h"
#include "fault/checkpoint/in_parallel.h"
#include "fault/checkpoint/sweep.h"
#include "support/catch.h"

namespace trainctl::testing {

TEST_CASE("killed at any system call of a save, on any rank, a run finds a whole checkpoint and saves again",
          "[fault][checkpoint]") {
  int64_t tried = 0, passed = 0;
  std::atomic<int64_t> killed{0};
  for (const std::string& config : sweep_configs())
    for (const Scenario& scenario : chosen_scenarios()) {
      const Sweep sweep(scenario, config);
      const std::vector<CallPoint> points = sample_of(sweep.points(), 10);
      const std::vector<std::string> faults = in_parallel(points.size(), [&](int lane, size_t i) {
        const CallPoint& point = points[i];
        const std::string inject = fmt::format("inject={}:signal=KILL:when={}", point.call, point.number);
        const SaveRun run =
            sweep.run(lane, point, {"-o", "/dev/null", "-e", "trace=" + point.call, "-e", inject}, 1, 1);
        killed += run.ranks[static_cast<size_t>(point.rank)].exit_code == 128 + 9;
        return sweep.judge(run.folder).fault;
      });
      for (size_t i = 0; i < points.size(); ++i) {
        ++tried;
        passed += faults[i].empty();
        CAPTURE(config, scenario.name, points[i].rank, points[i].call, points[i].number);
        CHECK(faults[i] == "");
      }
    }
  report_result("kill -9 at a system call of a save", tried, passed);
  report_result("  of these, points at which the process did die", tried, killed);
  CHECK(killed >= tried * 95 / 100);  // the others poll, and may need one call less
  if (is_campaign()) CHECK(killed >= 500);
}

}  // namespace trainctl::testing
