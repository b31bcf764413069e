// lib/launch/progress.h -- how training looks while it runs: one live line on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "launch/metrics_tail.h"

namespace trainctl {

// "step 12/200  loss 3.4512  grad_norm 1.03  lr 1.0e-03  5.1k tokens/s  MFU 41.2 %  ETA 2 m 10 s"; no MFU without one.
std::string step_text(const MetricsLine& line, int64_t steps, double eta_s);
std::string eval_text(const MetricsLine& line, int64_t steps);

class Progress {
 public:
  struct Options {
    int64_t steps = 0;                                   // of the whole run
    bool live = false;                                   // a terminal: the step line is overwritten
    int live_columns = 0;                                // cut the live line to fit; 0: do not
    double plain_interval_s = 1.0;                       // between plain lines, for runs of more than kEveryStepUpTo
    std::function<void(std::string_view)> result{};      // whole lines, with '\n'
    std::function<void(std::string_view)> diagnostic{};  // the live line
  };
  static constexpr int64_t kEveryStepUpTo = 2000;

  explicit Progress(Options options);
  void show(const MetricsLine& line, double now_s);  // now_s: any steady clock
  void message(const std::string& text);             // one line of diagnostics, on a line of its own
  void finish();                                     // ends the live line; prints a last step held back

  int64_t steps_made() const { return steps_made_; }
  const MetricsLine& last() const { return last_; }  // step lines only

 private:
  double eta_s() const;

  Options options_;
  MetricsLine last_;
  int64_t steps_made_ = 0;
  double smoothed_step_s_ = 0;
  double printed_at_s_ = 0;
  bool held_back_ = false, live_line_open_ = false;
};

}  // namespace trainctl
