// lib/trainer/metrics.h -- metrics.jsonl: one line per step from rank 0 alone, without gaps or doubles over a resume.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "runtime/runtime.h"

namespace trainctl {

// What a line of the two JSON-lines files has besides "step", a whole number: any one of these, a number, null or a
// list.
inline const std::vector<std::string> kMetricsValues = {"loss", "eval_loss"}, kSamplesValues = {"samples"};

// Keeps the lines of a JSON-lines file whose "step" is at most `last_step`, each step once with each of `values` (of
// doubles the last), and drops later ones, which will be made again. The file is replaced as a whole, so a crash here
// loses nothing; a link stays and what it leads to is replaced. No file gives an empty one.
// Where lines cannot be read, doubles go, or all steps do (`last_step` 0: the run starts anew), the file as it was is
// kept aside as FILE.1 (earlier ones as .2 to .9), and the result says so in one sentence; else it is "". Half a line
// at the end, which a killed process leaves, is dropped.
std::string keep_steps(const std::filesystem::path& path, int64_t last_step, const std::vector<std::string>& values);

// What is wrong with the file for a run that goes on after `last_step`, whose checkpoint records `last_loss`: steps
// that are missing after the first one there (the file was cut back for a branch that was left since, or by hand), out
// of order, or another loss of that step (its lines are of another branch). One sentence each. A file that is empty or
// absent is told when the checkpoint is the run's `own`.
std::vector<std::string> metrics_remarks(const std::filesystem::path& path, int64_t last_step, double last_loss,
                                         bool own);

class MetricsFile {
 public:
  // Appends to it. `make_room`: for a full disk.
  explicit MetricsFile(const std::filesystem::path& path, LineWriter::MakeRoom make_room = {});
  // consumed_tokens: of the run, this step included. peak_flops: of all ranks together; 0: mfu is null.
  void step(const StepReport& report, int64_t consumed_tokens, int64_t model_flops, double peak_flops,
            int64_t memory_peak_bytes);
  void evaluation(int64_t step, double loss);

 private:
  std::unique_ptr<LineWriter> writer_;
};

}  // namespace trainctl
