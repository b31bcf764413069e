// tests/property/tied_copies_test.cpp -- a tied embedding on the first and the last stage: one tensor, whatever the
// layout, in memory and on disk.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/verify.h"
#include "support/catch.h"
#include "support/tiny_run.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

constexpr int64_t kVocab = 257, kWidth = 48;

// Roles under which a checkpoint stores bytes of the embedding, each with the elements it stores.
std::map<std::string, int64_t> stored_embedding(const std::filesystem::path& checkpoint) {
  std::map<std::string, int64_t> elements;
  for (const TensorRecord& t : read_manifest(checkpoint).tensors) {
    CHECK(t.name != "head.weight");
    CHECK(t.alias_of.empty());
    if (t.name != "embedding.weight") continue;
    CHECK(elements.count(t.role) == 0);
    int64_t bytes = 0;
    for (const ChunkRecord& c : t.chunks) bytes += c.byte_length;
    elements[t.role] = bytes / size_of(t.dtype);
  }
  return elements;
}

}  // namespace

// The gatherer refuses two ranks that hold an element of one name with different bits: both ends of the pipeline hold
// "embedding.weight".
TEST_CASE(
    "tied copies on both ends of a pipeline have equal bits after 20 steps and after a resume, and are stored once",
    "[property][tied]") {
  for (const char* precision : {"f32", "bf16"})
    for (const Layout& layout : {Layout{1, 2, 1, false}, Layout{2, 2, 1, false}, Layout{2, 2, 1, true},
                                 Layout{1, 2, 2, false}, Layout{1, 4, 1, false}}) {
      INFO(precision << " " << layout.text());
      Recipe recipe = tiny_recipe("llama");
      recipe.model.tie_embeddings = true;
      recipe.model.vocab.value = kVocab;
      recipe.runtime.global_batch_size = 4;
      recipe.runtime.precision = precision;
      recipe.runtime.steps = 20;
      recipe = with_layout(recipe, layout);
      ScratchFolder folder;
      const RunRecord whole =
          run_tiny(recipe, {.folder = folder.path(), .last_step = 20, .look_after = {20}, .save_after = {10}});
      const RunRecord resumed = run_tiny(recipe, {.folder = folder.path(),
                                                  .resume = whole.saved(10),
                                                  .last_step = 20,
                                                  .look_after = {10, 20},
                                                  .save_after = {20}});
      CHECK(resumed.states.at(20) == whole.states.at(20));
      const auto& before = resumed.states.at(10).at({"embedding.weight", "exp_avg"});
      CHECK(std::any_of(before.begin(), before.end(), [](char byte) { return byte != 0; }));
      std::map<std::string, int64_t> expected;
      for (const char* role : {"exp_avg", "exp_avg_sq"}) expected[role] = kVocab * kWidth;
      if (recipe.runtime.precision == "bf16") {
        expected["master"] = kVocab * kWidth;
        expected["weight"] = 0;  // follows from the master
      } else {
        expected["weight"] = kVocab * kWidth;
      }
      CHECK(stored_embedding(whole.saved(10)) == expected);
      CHECK(stored_embedding(resumed.saved(20)) == expected);
    }
}

}  // namespace trainctl::testing
