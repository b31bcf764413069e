// tests/support/tiny.h -- tiny recipes, synthetic samples, and whole runs with ranks as threads, for comparing layouts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "runtime/batch_source.h"
#include "trainer/counters.h"
#include "trainer/engine.h"

namespace trainctl::testing {

// Tokens, labels (some not counted) and documents as a pure function of the sample number.
class SyntheticSource final : public BatchSource {
 public:
  SyntheticSource(int64_t vocab, int64_t sequence, bool documents)
      : vocab_(vocab), sequence_(sequence), documents_(documents) {}
  void fill(SampleSplit split, int64_t first, int64_t count, const SampleBuffers& out) override;

 private:
  int64_t vocab_, sequence_;
  bool documents_;
};

struct Layout {
  int64_t tensor = 1, pipeline = 1, data = 1;
  bool sequence = false;
  std::vector<int64_t> stages{};  // layers of each pipeline stage; empty: what the recipe says
  int64_t world() const { return tensor * pipeline * data; }
  std::string text() const;  // "tp2+sp pp2(3,1) dp1"
};
// Every legal one of 1 to `most` ranks for the recipe.
std::vector<Layout> legal_layouts(const Recipe& recipe, int64_t most);

// A resolved recipe for a layout; fails the test when the recipe has faults.
Recipe with_layout(Recipe recipe, const Layout& layout);

using Tensors = std::map<std::string, std::vector<float>>;  // by name, logical shape, row-major

struct Trace {
  std::vector<double> losses, norms;
  Tensors gradients;                   // of the first step, before clipping
  Tensors weights;                     // master, after the last step
  std::vector<RankCounters> counters;  // per rank, of the last step
  double eval_loss = 0;
};

struct TraceOptions {
  int64_t steps = 1;
  bool documents = false;
  bool evaluate = false;
  std::map<std::string, std::vector<float>> initial;  // overrides of initial values, logical
  std::function<void(Engine&)> before_steps;
  BatchSource* source = nullptr;  // null: SyntheticSource; fill() is called from every rank's thread
};

// Trains `recipe` (resolved for its world) with one thread per rank and the threads backend.
Trace trace(const Recipe& recipe, const TraceOptions& options);

// ||a - b|| / ||b||, and infinity when sizes differ. Both empty: 0.
double relative_error(const std::vector<float>& a, const std::vector<float>& b);
double norm_of(const std::vector<float>& a);

// Runs f(rank, collectives) on `size` threads over one threads hub; rethrows the first failure, which ends the others.
void run_ranks(int size, int64_t message_chunk_bytes, const std::function<void(int, std::unique_ptr<Collectives>)>& f);

// Tiny models: heads 6, 2 kv heads, widths that divide by little. family as in a recipe; 4 layers.
Recipe tiny_recipe(const std::string& family);

}  // namespace trainctl::testing
