// lib/trainer/metrics.h -- metrics.jsonl: one line per step from rank 0 alone, without gaps or doubles over a resume.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "runtime/runtime.h"

namespace trainctl {

// Keeps the lines of a JSON-lines file whose "step" is at most `last_step`, and drops later ones and half lines. The
// file is replaced as a whole, so a crash here loses nothing. No file gives an empty one.
void keep_steps(const std::filesystem::path& path, int64_t last_step);

// What is wrong with the file for a run that goes on after `last_step`, whose checkpoint records `last_loss`: steps
// that are missing after the first one there (the file was cut back for a branch that was left since, or by hand), or
// another loss of that step (its lines are of another branch). One sentence each. A file that is empty or absent is
// told when the checkpoint is the run's `own`.
std::vector<std::string> metrics_remarks(const std::filesystem::path& path, int64_t last_step, double last_loss,
                                         bool own);

class MetricsFile {
 public:
  // Of an earlier run in the same folder, steps up to `last_step` stay. `make_room`: for a full disk.
  MetricsFile(const std::filesystem::path& path, int64_t last_step, LineWriter::MakeRoom make_room = {});
  // consumed_tokens: of the run, this step included. peak_flops: of all ranks together; 0: mfu is null.
  void step(const StepReport& report, int64_t consumed_tokens, int64_t model_flops, double peak_flops,
            int64_t memory_peak_bytes);
  void evaluation(int64_t step, double loss);

 private:
  std::unique_ptr<LineWriter> writer_;
};

}  // namespace trainctl
