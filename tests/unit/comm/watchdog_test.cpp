// tests/unit/comm/watchdog_test.cpp -- a rank without progress is noticed, once, with what it was doing.
#include "comm/watchdog.h"

#include <atomic>
#include <future>

#include "comm/world.h"
#include "support/catch.h"
#include "support/collective_laws.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Collects what the watchdog says.
struct Listener {
  std::atomic<int> calls{0};
  std::promise<HangReport> first;
  std::function<void(const HangReport&)> callback() {
    return [this](const HangReport& report) {
      if (calls++ == 0) first.set_value(report);
    };
  }
};

}  // namespace

TEST_CASE("an operation that the peer never joins is reported with group, sequence, step and place",
          "[comm][watchdog]") {
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(2);
  const auto device = make_cpu_device();
  Arena arena(*device);
  const auto stream = device->make_compute_stream();
  World world(Mesh({.data = 2}), hub->collectives_for(0), arena);
  std::thread peer([&] {  // joins the first operation only
    const auto device1 = make_cpu_device();
    Arena arena1(*device1);
    const auto stream1 = device1->make_compute_stream();
    World world1(Mesh({.data = 2}), hub->collectives_for(1), arena1);
    world1.group(Axis::data).barrier(*stream1);
  });
  world.group(Axis::data).barrier(*stream);
  peer.join();

  Listener heard;
  const Watchdog watchdog(world.recorder(), 0.1, heard.callback());
  world.recorder().set_step(7);
  world.recorder().set_place("backward attention", 2);
  const Tensor t(arena, {10}, DType::f32, MemoryCategory::gradients);
  std::fill_n(t.view().as<float>(), 10, 1.0f);
  Pending pending = world.group(Axis::data).all_reduce(t, Reduce::sum, *stream);
  std::future<HangReport> future = heard.first.get_future();
  REQUIRE(future.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const HangReport report = future.get();
  REQUIRE(report.operation.has_value());
  CHECK(report.operation->axis == "data");
  CHECK(report.operation->sequence == 1);
  CHECK(report.operation->ranks == std::vector<int>{0, 1});
  CHECK(report.waited_s > 0.1);
  CHECK(report.step == 7);
  CHECK(report.recent.size() == 2);
  CHECK_THAT(report.text(),
             Catch::Contains("all_reduce #1 in the data group (ranks 0,1), 40 bytes, not finished for 0.") &&
                 Catch::Contains("(limit 0.1 s); step 7, backward attention, layer 2"));
  sleep_ms(150);
  CHECK(heard.calls == 1);
  hub->abort("test over");
  CHECK_THROWS_WITH(pending.wait(), "test over");
}

TEST_CASE("a compute thread that stays at one place is reported, one that moves is not", "[comm][watchdog]") {
  Recorder recorder;
  Listener heard;
  const Watchdog watchdog(recorder, 0.15, heard.callback());
  sleep_ms(250);  // nowhere yet: not watched
  for (int i = 0; i < 20; ++i) {
    recorder.set_place("forward ffn", i);
    sleep_ms(15);
  }
  CHECK(heard.calls == 0);
  std::future<HangReport> future = heard.first.get_future();
  REQUIRE(future.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const HangReport report = future.get();
  CHECK_FALSE(report.operation.has_value());
  CHECK_THAT(report.text(),
             Catch::Contains("the compute thread has not moved for 0.") && Catch::Contains("forward ffn, layer 19"));
}

TEST_CASE("a thread that waits in an operation is reported with it, however long it was at its place before",
          "[comm][watchdog]") {
  Recorder recorder;
  Listener heard;
  const Watchdog watchdog(recorder, 0.2, heard.callback());
  recorder.set_place("backward");
  sleep_ms(120);  // computes, then waits: its place is past the limit first
  Request waits;
  waits.operation = Operation::barrier;
  recorder.begin(GroupInfo{.id = 1, .axis = "data", .ranks = {0, 1}}, waits);
  std::future<HangReport> future = heard.first.get_future();
  REQUIRE(future.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const HangReport report = future.get();
  REQUIRE(report.operation.has_value());
  CHECK(report.operation->operation == Operation::barrier);
  CHECK(report.waited_s > 0.2);
  CHECK(report.in_place_s > report.waited_s);
}

TEST_CASE("an extension holds the watchdog back while it lives, and names the work when it fires", "[comm][watchdog]") {
  Recorder recorder;
  Listener heard;
  Watchdog watchdog(recorder, 0.1, heard.callback());
  recorder.set_place("save");
  {
    const Watchdog::Extension not_watched(watchdog, 0, "saving step 50");
    sleep_ms(300);
  }
  sleep_ms(30);  // its time does not count afterwards
  CHECK(heard.calls == 0);
  const Watchdog::Extension longer(watchdog, 0.2, "saving step 60");
  std::future<HangReport> future = heard.first.get_future();
  REQUIRE(future.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  const HangReport report = future.get();
  CHECK(report.limit_s == 0.2);
  CHECK(report.waited_s > 0.2);
  CHECK_THAT(report.text(), Catch::Contains("during saving step 60"));
}

TEST_CASE("a watchdog without a limit never fires, and ends at once", "[comm][watchdog]") {
  Recorder recorder;
  Listener heard;
  recorder.set_place("forward");
  {
    const Watchdog watchdog(recorder, 0, heard.callback());
    sleep_ms(50);
  }
  CHECK(heard.calls == 0);
}
