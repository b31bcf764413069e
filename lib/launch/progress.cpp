// lib/launch/progress.cpp -- formats metrics for people.
#include "launch/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace trainctl {
namespace {

constexpr double kSmoothing = 0.1;  // weight of the newest step in the ETA's step time

}  // namespace

std::string step_text(const MetricsLine& line, int64_t steps, double eta_s) {
  std::string text = fmt::format("step {}/{}  loss {:.4f}  grad_norm {:.3g}  lr {:.3g}  {} tokens/s", line.step, steps,
                                 line.loss, line.grad_norm, line.lr, human_count(line.tokens_per_s));
  if (line.mfu) text += fmt::format("  MFU {:.1f} %", *line.mfu * 100);
  if (eta_s > 0) text += "  ETA " + human_seconds(eta_s);
  return text;
}

std::string eval_text(const MetricsLine& line, int64_t steps) {
  return fmt::format("evaluation after step {}/{}  loss {:.4f}", line.step, steps, line.eval_loss.value_or(0));
}

Progress::Progress(Options options) : options_(std::move(options)) {}

double Progress::eta_s() const { return static_cast<double>(options_.steps - last_.step) * smoothed_step_s_; }

void Progress::show(const MetricsLine& line, double now_s) {
  if (line.eval_loss) {
    if (std::exchange(live_line_open_, false)) options_.diagnostic("\r\033[K");
    options_.result(eval_text(line, options_.steps) + "\n");
    return;
  }
  last_ = line;
  ++steps_made_;
  smoothed_step_s_ = steps_made_ == 1 ? line.step_s : (1 - kSmoothing) * smoothed_step_s_ + kSmoothing * line.step_s;
  if (options_.live) {
    std::string text = step_text(line, options_.steps, eta_s());
    if (options_.live_columns > 1) text.resize(std::min(text.size(), static_cast<size_t>(options_.live_columns - 1)));
    options_.diagnostic("\r" + text + "\033[K");
    live_line_open_ = true;
    return;
  }
  const bool due =
      options_.steps <= kEveryStepUpTo || steps_made_ == 1 || now_s - printed_at_s_ >= options_.plain_interval_s;
  held_back_ = !due;
  if (!due) return;
  printed_at_s_ = now_s;
  options_.result(step_text(line, options_.steps, eta_s()) + "\n");
}

void Progress::message(const std::string& text) {
  if (std::exchange(live_line_open_, false)) options_.diagnostic("\r\033[K");
  options_.diagnostic(text + "\n");
}

void Progress::finish() {
  if (std::exchange(live_line_open_, false)) options_.diagnostic("\n");
  if (std::exchange(held_back_, false)) options_.result(step_text(last_, options_.steps, eta_s()) + "\n");
}

}  // namespace trainctl
