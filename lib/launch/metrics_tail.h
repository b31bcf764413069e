// lib/launch/metrics_tail.h -- follows metrics.jsonl while rank 0 writes it: each line once, also over a truncation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl {

// A step's line, or an evaluation's (then only `step` and `eval_loss` are set).
struct MetricsLine {
  int64_t step = 0;
  std::optional<double> eval_loss;
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_s = 0, step_s = 0;
  std::optional<double> mfu;
};

class MetricsTail {
 public:
  // Lines that the file has now belong to an earlier run and are not returned.
  explicit MetricsTail(std::filesystem::path file);

  // Complete lines that were added since the last call, in order; lines that are no metrics are passed over. When the
  // file was cut back (a resume drops the steps it repeats), lines that differ from those seen before count as added.
  std::vector<MetricsLine> poll();

  std::optional<int64_t> last_step() const;  // of the file as it is; reads it

 private:
  std::vector<std::string> take_lines();

  std::filesystem::path file_;
  int64_t offset_ = 0;        // what is before it has been taken
  std::vector<size_t> seen_;  // hash of each line before offset_
  std::string last_line_;     // ends at offset_; a change of it shows that the file was rewritten
};

}  // namespace trainctl
