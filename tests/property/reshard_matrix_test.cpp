// tests/property/reshard_matrix_test.cpp -- a run saved in one layout continues in another: the state bit for bit, the
// losses as if nothing had happened; and back again to the same content.
#include <fmt/format.h>

#include <cstddef>

#include "support/catch.h"
#include "support/tiny_run.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

constexpr int64_t kHalf = 3, kWhole = 6;
constexpr int64_t kBallast = kBlockBytes + 4096;  // a block that rank 0 alone needs, and the beginning of the next

// 1 to 8 ranks. Six heads over four tensor ranks give two of them one head; 257 and 52 divide by none of them.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {{1, 1, 1, false},         {2, 1, 1, false}, {1, 2, 1, false},
                                          {4, 1, 1, true},          {1, 1, 4, false}, {2, 2, 2, true},
                                          {1, 4, 1, false},         {3, 1, 2, false}, {1, 2, 2, false, {1, 3}},
                                          {4, 2, 1, false, {3, 1}}, {2, 1, 4, true},  {1, 3, 2, false, {2, 1, 1}},
                                          {1, 1, 2, false},         {2, 4, 1, false}, {1, 2, 4, false, {3, 1}}};
  return all;
}

Recipe matrix_recipe(const std::string& family, const std::string& name) {
  Recipe r = tiny_recipe(family);
  r.name = name;
  r.model.vocab.value = 257;
  r.data.sequence_tokens = 9;
  r.runtime.global_batch_size = 4;
  r.runtime.steps = kWhole;
  r.checkpoint.keep = 1;
  return r;
}

struct Source {  // a run in one layout that was never interrupted, and its checkpoint at half time
  Recipe recipe;
  RunRecord run;
  std::filesystem::path checkpoint;
  std::string content;
};

// Each block that a rank of the node needs is read from the disk once, and is handed to all the others that need it.
void check_read_once(const NodeLoad& load) {
  CHECK(load.stored > kBlockBytes);
  CHECK(load.needed_once == load.stored);
  CHECK(load.read == load.needed_once);
  CHECK(load.received == load.needed - load.needed_once);
}

// Looked at and saved at half time.
RunRecord run_and_look(const Recipe& recipe, const std::filesystem::path& folder, int64_t last_step,
                       const std::filesystem::path& resume = {}) {
  return run_tiny(recipe, {.folder = folder,
                           .resume = resume,
                           .last_step = last_step,
                           .look_after = {kHalf},
                           .save_after = {kHalf},
                           .ballast_bytes = kBallast});
}

void check_same(const WholeState& got, const WholeState& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [key, bytes] : expected) {
    INFO(key.first << " (" << key.second << ")");
    REQUIRE(got.count(key) == 1);
    CHECK(got.at(key) == bytes);
  }
}

class Matrix {
 public:
  Matrix(Recipe recipe, double tolerance) : recipe_(std::move(recipe)), tolerance_(tolerance) {
    for (size_t i = 0; i < layouts().size(); ++i) {
      Source s;
      s.recipe = with_layout(recipe_, layouts()[i]);
      const std::filesystem::path folder = scratch_.path() / std::to_string(i);
      s.run = run_and_look(s.recipe, folder, kWhole);
      s.checkpoint = s.run.saved(kHalf);
      s.content = content_of(s.checkpoint);
      sources_.push_back(std::move(s));
    }
  }

  void check_pair(size_t from, size_t to) {
    const Source &a = sources_[from], &b = sources_[to];
    INFO(recipe_.name << ": " << layouts()[from].text() << " -> " << layouts()[to].text());
    const std::filesystem::path there = scratch_.path() / "there", back = scratch_.path() / "back";
    const RunRecord moved = run_and_look(b.recipe, there, kWhole, a.checkpoint);
    check_read_once(moved.load);
    check_same(moved.states.at(kHalf), a.run.states.at(kHalf));
    REQUIRE(moved.losses.size() == kWhole - kHalf);
    for (const auto& [step, loss] : moved.losses) {
      INFO("step " << step);
      for (const auto& [got, expected] :
           {std::pair(loss, a.run.losses.at(step)), std::pair(moved.norms.at(step), a.run.norms.at(step))})
        if (from == to)
          CHECK(got == expected);
        else
          CHECK(got == Approx(expected).epsilon(tolerance_));
    }
    const RunRecord again = run_and_look(a.recipe, back, 0, moved.saved(kHalf));
    check_read_once(again.load);
    check_same(again.states.at(kHalf), a.run.states.at(kHalf));
    CHECK(content_of(again.saved(kHalf)) == a.content);
    std::filesystem::remove_all(there);
    std::filesystem::remove_all(back);
  }

  // Every layout as a source and as a target, `stride` places apart; 0: each with itself.
  void check_ring(size_t stride) {
    for (size_t i = 0; i < layouts().size(); ++i) check_pair(i, (i + stride) % layouts().size());
  }

 private:
  ScratchFolder scratch_;
  Recipe recipe_;
  double tolerance_;
  std::vector<Source> sources_;
};

}  // namespace

TEST_CASE("AdamW, untied, f32: every reshard keeps the bits, and the losses within 1e-5", "[property][reshard]") {
  Matrix matrix(matrix_recipe("llama", "untied"), 1e-5);
  for (const size_t stride : {0, 1}) matrix.check_ring(stride);
}

TEST_CASE("AdamW, tied, f32: every reshard keeps the bits, and the losses within 1e-5", "[property][reshard]") {
  Recipe recipe = matrix_recipe("llama", "tied");
  recipe.model.tie_embeddings = true;
  Matrix matrix(recipe, 1e-5);
  matrix.check_ring(4);
}

TEST_CASE("SGD with momentum, biases and learned positions: every reshard keeps the bits, and the losses within 1e-5",
          "[property][reshard]") {
  Recipe recipe = matrix_recipe("gpt2", "momentum");
  recipe.optimizer.kind = "sgd";
  recipe.optimizer.momentum = 0.9;
  recipe.optimizer.lr = 0.5;
  Matrix matrix(recipe, 1e-5);
  matrix.check_ring(11);
}

TEST_CASE("bf16 with an f32 master: every reshard keeps the bits of weights, master and moments",
          "[property][reshard]") {
  Recipe recipe = matrix_recipe("qwen3", "bf16");
  recipe.runtime.precision = "bf16";
  recipe.model.tie_embeddings = true;
  Matrix matrix(recipe, 3e-2);  // another layout rounds other partial sums
  matrix.check_ring(8);
  for (const size_t same : {3, 5, 8}) matrix.check_pair(same, same);
}

TEST_CASE("a vocabulary with a word or two per rank, and SGD without a state of its own, are resharded too",
          "[property][reshard]") {
  Recipe recipe = matrix_recipe("llama", "small");
  recipe.model.vocab.value = 5;
  recipe.optimizer.kind = "sgd";
  recipe.optimizer.lr = 0.5;
  Matrix matrix(recipe, 1e-5);
  matrix.check_ring(3);
}

}  // namespace trainctl::testing
