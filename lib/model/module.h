// lib/model/module.h -- what a model is made of. A module knows no rank: where ranks must meet it has a slot (a Region,
// a VocabReducer) that does nothing until a strategy fills it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "ops/ops.h"

namespace trainctl {

// One micro-batch on one data rank. T = batch * sequence rows, in order.
struct Batch {
  int64_t batch = 0, sequence = 0;
  Tensor tokens, labels, positions;  // i32 [T]; labels -1: not counted
  Tensor document_start;             // i32 [B, S], or empty: one document per sequence
  int64_t first_token = 0;           // of row 0, within the step's global batch
};

// Everything a forward pass carries besides the activation.
struct ForwardPass {
  Tape& tape;
  const Batch& batch;
  uint64_t seed = 0;
  int64_t step = 0;
  float loss_scale = 1.0f;  // gradient of the summed loss: 1 / counted tokens of the global batch
  Tensor loss_sum;          // f64 [1], last stage
  bool dropout = false;
  bool recompute_blocks = false;
};

// Between enter and leave each rank works on whole sequences with its own heads or columns; outside, all ranks hold the
// same activation, or each a run of its rows. Rewritten by role; the default is one rank.
class Region {
 public:
  virtual ~Region() = default;
  virtual Tensor enter(Tape& tape, const Tensor& x, int64_t total_rows);  // [rows held outside, D] -> [T, D]
  virtual Tensor leave(Tape& tape, const Tensor& x);               // partial sums [T, D] -> [rows held outside, D]
  virtual Span64 rows(int64_t total) const { return {0, total}; }  // the rows held outside
};

class Module {
 public:
  virtual ~Module() = default;
  virtual std::string name() const = 0;
  virtual int layer() const { return -1; }
  virtual Tensor forward(ForwardPass& pass, const Tensor& x) = 0;
  // Slots, in flat-buffer order. A slot may be pointed at another module's parameter of the same name (tied weights).
  virtual std::vector<ParameterPtr*> parameters() = 0;
  virtual std::vector<std::unique_ptr<Region>*> regions() = 0;
  virtual std::unique_ptr<VocabReducer>* vocab_reducer() { return nullptr; }
  // The last module alone: scores [T, vocabulary rows held here] f32, without a loss; nothing is recorded.
  virtual Tensor logits(ForwardPass& pass, const Tensor& x);
  // Called once when the parameters have their storage: caches views, builds tables.
  virtual void bind(Context& context) = 0;
};

}  // namespace trainctl
