// tests/unit/checkpoint/rate_limit_test.cpp -- the token bucket on a clock of our own, and a save that waits for it.
#include "base/error.h"
#include "checkpoint/scan.h"
#include "checkpoint/token_bucket.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {

using Clock = TokenBucket::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a token bucket lets a burst pass and then its rate, never more", "[checkpoint]") {
  for (const int64_t piece : {1, 10, 700, 5000}) {  // smaller and larger than the bucket
    CAPTURE(piece);
    const Clock::time_point start{};
    Clock::time_point now = start;
    TokenBucket bucket(1000, 500, now);  // bytes per second, bytes
    int64_t passed = 0;
    while (passed < 50'000) {
      const Clock::duration wait = bucket.wait(now);
      if (wait > Clock::duration::zero()) {
        CHECK(bucket.wait(now) == wait);  // asking takes nothing
        TokenBucket early = bucket;
        CHECK(early.wait(now + wait - wait / 8) > Clock::duration::zero());
        now += wait;
        REQUIRE(bucket.wait(now) == Clock::duration::zero());  // waiting as told is enough
      }
      bucket.take(piece);
      passed += piece;
      const double elapsed = std::chrono::duration<double>(now - start).count();
      REQUIRE(static_cast<double>(passed) <= 500.001 + 1000 * elapsed + static_cast<double>(piece));
    }
    const double elapsed = std::chrono::duration<double>(now - start).count();
    CHECK(static_cast<double>(passed) >= 1000 * elapsed);  // and nothing is lost
  }
}

TEST_CASE("a token bucket that rests fills up to its burst and no further", "[checkpoint]") {
  Clock::time_point now{};
  TokenBucket bucket(1000, 500, now);
  bucket.take(501);
  CHECK(bucket.wait(now) > Clock::duration::zero());
  now += seconds(3600);
  CHECK(bucket.wait(now) == Clock::duration::zero());
  bucket.take(1500);  // a debt of one second
  CHECK(bucket.wait(now) > milliseconds(999));
  CHECK(bucket.wait(now - seconds(5)) > milliseconds(999));  // a clock that goes back gives nothing
  CHECK(bucket.wait(now + milliseconds(1002)) == Clock::duration::zero());
}

TEST_CASE("without a rate there is no limit", "[checkpoint]") {
  TokenBucket bucket(0, 1, Clock::time_point{});
  for (int i = 0; i < 100; ++i) {
    bucket.take(int64_t{1} << 40);
    CHECK(bucket.wait(Clock::time_point{}) == Clock::duration::zero());
  }
}

TEST_CASE("a limited save waits for its tokens, is whole in the end, and can be cancelled while it waits",
          "[checkpoint]") {
  const std::vector<GlobalTensor> model = {{"w", "weight", DType::f64, {1300, 1024}, -1, ""}};
  for (const int64_t limit : {int64_t{100'000'000}, int64_t{20'000}}) {
    CAPTURE(limit);
    ScratchFolder folder;
    RankState state(model, 0, 1);
    state.fill(1);
    CheckpointConfig config;
    config.write_limit_bytes_per_s = limit;
    {
      Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
      c.save(state.catalog, scalars_at(1), SaveReason::interval);
      if (limit == 100'000'000) {
        CHECK(c.wait().front().ok);
        state.wipe();
        CHECK(c.restore(state.catalog).found);
        CHECK(state.difference(1) == "");
      } else {
        std::this_thread::sleep_for(milliseconds(100));
        CHECK(c.poll().empty());  // the second half of the data has minutes to go
      }
    }
    CHECK(scan_checkpoints(folder.path()).size() == (limit == 100'000'000 ? 1 : 0));
  }
}

TEST_CASE("a limit under which no save can end before the deadline is refused with both numbers", "[checkpoint]") {
  ScratchFolder folder;
  RankState state({{"w", "weight", DType::f32, {1024, 1024}, -1, ""}}, 0, 1);
  CheckpointConfig config;
  config.deadline_s = 60;
  config.write_limit_bytes_per_s = 1000;
  try {
    build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
    FAIL("accepted");
  } catch (const Error& e) {
    const std::string text = e.what();
    CHECK(e.kind() == ErrorKind::config);
    CHECK(text.find("checkpoint.write_limit_bytes_per_s") != std::string::npos);
    CHECK(text.find("checkpoint.deadline_s") != std::string::npos);
  }
  config.deadline_s = 6000;
  CHECK_NOTHROW(build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog));
}

}  // namespace trainctl::testing
