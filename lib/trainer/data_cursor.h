// lib/trainer/data_cursor.h -- which sample comes next, over steps, resumes, changed data and skipped batches.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpointer.h"
#include "data/sampler.h"
#include "recipe/job.h"

namespace trainctl {

// Samples that were passed over on request.
struct SkippedSamples {
  int64_t after_step = 0, first = 0, count = 0;
  void describe(ConfigVisitor& v);
};

// ScalarState::data_state as a struct.
struct DataState {
  DataOrder order;
  int64_t samples_per_step = 0;  // global_batch_size of the run that saved
  std::vector<SkippedSamples> skipped;
  void describe(ConfigVisitor& v);
};
std::string to_text(const DataState& state);
// Throws Error{checkpoint} naming `source`, key and rule.
DataState data_state_from_text(const std::string& text, const std::string& source);

struct DataRemark {
  bool warning = false;
  std::string text;
};

class DataCursor {
 public:
  // At the first sample of a new run. `job` (resolved) and `sampler` outlive it.
  DataCursor(const Job& job, Sampler& sampler);

  // The run is new. Throws Error{input}: the data do not fill the sequences that training, or evaluation where the
  // recipe asks for it, needs (Sampler::require).
  void begin() const;

  // Goes on behind what the checkpoint consumed; the sampler follows the order that this gives. A step takes
  // global_batch_size samples from here on, whatever it was. Batches that job.skip and job.skipped_before name are
  // passed over, then data that are not those of the checkpoint are dealt with as data.on_change says. Returns what a
  // person should know. The same on every rank. Throws Error{checkpoint}: the data changed and may not, with each
  // change, old and new value, and the choices; the checkpoint contradicts itself; more is to be skipped than a run can
  // have. Throws Error{input} as begin().
  std::vector<DataRemark> resume(const RestoreResult& found);

  int64_t next_sample() const { return next_sample_; }
  int64_t consumed_tokens() const { return consumed_tokens_; }
  void advance();  // a step was done
  // Fills consumed_samples, consumed_tokens, seed, data_fingerprint and data_state.
  void record(ScalarState& scalars) const;

 private:
  DataOrder changed_order(const DataState& then, const std::string& folder, std::vector<DataRemark>& remarks) const;
  int64_t skip(const RestoreResult& found, std::vector<DataRemark>& remarks);  // batches passed over
  void pass_over(const SkipBatches& skip, int64_t after_step, std::vector<DataRemark>& remarks);
  DataRemark what_was_skipped(const DataOrder& then, int64_t first, int64_t batches) const;

  const Job& job_;
  Sampler& sampler_;
  int64_t next_sample_ = 0, consumed_tokens_ = 0;
  std::vector<SkippedSamples> skipped_;
};

}  // namespace trainctl
