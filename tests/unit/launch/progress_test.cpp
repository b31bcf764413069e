// tests/unit/launch/progress_test.cpp -- what people see of the metrics.
#include "launch/progress.h"

#include "support/catch.h"

namespace trainctl {
namespace {

using Catch::Contains;

struct Screen {
  std::string out, err;
  Progress::Options options(int64_t steps, bool live) {
    return {.steps = steps,
            .live = live,
            .result = [this](std::string_view text) { out += text; },
            .diagnostic = [this](std::string_view text) { err += text; }};
  }
};

MetricsLine step(int64_t number, double loss) {
  MetricsLine line;
  line.step = number;
  line.loss = loss;
  line.step_s = 0.5;
  return line;
}

int64_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

}  // namespace

TEST_CASE("a step's line has every number, and MFU only when it is known", "[launch]") {
  MetricsLine line = step(12, 3.45678);
  line.grad_norm = 1.25;
  line.lr = 0.001;
  line.tokens_per_s = 5120;
  CHECK_THAT(step_text(line, 200, 130), Contains("step 12/200") && Contains("loss 3.4568") &&
                                            Contains("grad_norm 1.25") && Contains("lr 0.001") &&
                                            Contains("ETA 2 m 10 s") && !Contains("MFU"));
  line.mfu = 0.4123;
  CHECK_THAT(step_text(line, 200, 0), Contains("MFU 41.2 %") && !Contains("ETA"));
}

TEST_CASE("short runs show every step, long ones about one a second, and always the last", "[launch]") {
  Screen screen;
  Progress few(screen.options(100, false));
  for (int i = 1; i <= 100; ++i) few.show(step(i, 1), 0);
  CHECK(lines_in(screen.out) == 100);

  Screen other;
  Progress many(other.options(Progress::kEveryStepUpTo + 1, false));
  for (int i = 1; i <= 100; ++i) many.show(step(i, 1), 0.1 * i);
  many.finish();
  CHECK(lines_in(other.out) <= 13);
  CHECK_THAT(other.out, Contains("step 1/") && Contains("step 100/"));
  CHECK(many.steps_made() == 100);
}

TEST_CASE("a live line is overwritten in place, and an evaluation stands on a line of its own", "[launch]") {
  Screen screen;
  Progress progress(screen.options(10, true));
  progress.show(step(1, 1), 0);
  progress.show(step(2, 1), 0);
  CHECK(lines_in(screen.err) == 0);
  CHECK(std::count(screen.err.begin(), screen.err.end(), '\r') == 2);
  MetricsLine evaluation;
  evaluation.step = 2;
  evaluation.eval_loss = 1.5;
  progress.show(evaluation, 0);
  CHECK(screen.out == "evaluation after step 2/10  loss 1.5000\n");
  progress.show(step(3, 1), 0);
  progress.finish();
  CHECK(lines_in(screen.err) == 1);
}

TEST_CASE("a live line never wraps", "[launch]") {
  Screen screen;
  Progress::Options options = screen.options(10, true);
  options.live_columns = 30;
  Progress progress(options);
  progress.show(step(1, 1), 0);
  CHECK_THAT(screen.err, Catch::StartsWith("\rstep 1/10"));
  CHECK(screen.err.size() == 1 + 29 + 3);  // carriage return, text, erase to the end
}

}  // namespace trainctl
