// tests/unit/interop/hf_fault_test.cpp -- exports that are refused, and what they leave behind: nothing.
#include <limits>

#include "base/error.h"
#include "checkpoint/retention.h"
#include "interop/checkpoint_model.h"
#include "interop/hf_export.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;

namespace {

// The message; "" when the export went through. Checks that nothing is left.
std::string refusal(const fs::path& scratch, const fs::path& checkpoint) {
  try {
    export_hf(checkpoint, scratch / "out");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::checkpoint);
    CHECK(names_below(scratch) == std::vector<std::string>{"checkpoints"});
    return e.what();
  }
  return "";
}

std::string refusal_of(const Golden& state, const SaveOptions& options = {}) {
  ScratchFolder scratch;
  return refusal(scratch.path(), save_weights(scratch.path() / "checkpoints", state, options));
}

bool says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("missing, unexpected and mis-shaped weights are all named at once", "[interop]") {
  Golden g = golden("llama");
  g.weights.erase("layers.1.ffn.up.weight");
  g.weights.erase("final_norm.weight");
  g.weights["layers.0.attention.q.bias"] = {{32}, std::vector<float>(32, 1.0f)};
  std::swap(g.weights["layers.2.ffn.down.weight"].shape[0], g.weights["layers.2.ffn.down.weight"].shape[1]);
  const std::string message = refusal_of(g);
  says(message, "missing layers.1.ffn.up.weight");
  says(message, "missing final_norm.weight");
  says(message, "unexpected layers.0.attention.q.bias");
  says(message, "layers.2.ffn.down.weight is [96, 32], not [32, 96]");
}

TEST_CASE("a head that contradicts tie_embeddings is refused, a shared one is written once", "[interop]") {
  Golden tied_with_own_head = golden("llama_tied");
  tied_with_own_head.weights["head.weight"] = tied_with_own_head.weights["embedding.weight"];
  says(refusal_of(tied_with_own_head), "unexpected head.weight (tie_embeddings is true)");

  Golden untied_without_head = golden("llama");
  untied_without_head.weights.erase("head.weight");
  says(refusal_of(untied_without_head), "missing head.weight");

  SaveOptions shared;
  shared.aliases["head.weight"] = "embedding.weight";
  says(refusal_of(golden("llama"), shared), "head.weight is a copy of embedding.weight");

  ScratchFolder scratch;  // tied over two pipeline stages: the catalog knows the copy
  export_hf(save_weights(scratch.path() / "checkpoints", tied_with_own_head, shared), scratch.path() / "out");
  CHECK(back_to_trainctl(read_export(scratch.path() / "out")) == golden("llama_tied").weights);
}

TEST_CASE("a damaged block is never exported, and an earlier export stays whole", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("gpt2"));
  export_hf(checkpoint, scratch.path() / "out");
  const std::string before = file_bytes(scratch.path() / "out/model.safetensors");
  const fs::path shard = checkpoint / "data/model-r00000.safetensors";
  const std::string bytes = file_bytes(shard);
  put_byte(shard, bytes.size() - 5, static_cast<char>(bytes[bytes.size() - 5] ^ 1));
  CHECK_THROWS_AS(export_hf(checkpoint, scratch.path() / "out"), Error);
  CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "out"});
  CHECK(file_bytes(scratch.path() / "out/model.safetensors") == before);
  fs::remove_all(scratch.path() / "out");
  says(refusal(scratch.path(), checkpoint), "data/model-r00000.safetensors");
}

TEST_CASE("states nobody should use, and states without an architecture, are refused with the reason", "[interop]") {
  SaveOptions exploded;
  exploded.loss = std::numeric_limits<double>::infinity();
  says(refusal_of(golden("llama"), exploded), "its kind is intermediate");

  SaveOptions nameless;
  nameless.provenance = R"({"build":"abc"})";
  says(refusal_of(golden("llama"), nameless), "holds no recipe");

  SaveOptions strange;
  nlohmann::json provenance = provenance_of(golden("llama").model);
  provenance["recipe"]["model"]["family"] = "mamba";
  strange.provenance = provenance.dump();
  says(refusal_of(golden("llama"), strange), "mamba");

  SaveOptions open;
  provenance = provenance_of(golden("llama").model);
  provenance["recipe"]["model"]["vocab"] = "tokenizer";
  open.provenance = provenance.dump();
  says(refusal_of(golden("llama"), open), "not resolved");

  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama"));
  mark_unusable(checkpoint, "loss spike", "test", "");
  says(refusal(scratch.path(), checkpoint), "loss spike");
}

TEST_CASE("a YaRN stretch that transformers cannot compute is refused by name", "[interop]") {
  Golden g = golden("llama_rope_yarn");
  g.model["rope"]["factor"] = 4.03;
  says(refusal_of(g), "original_positions");
}

TEST_CASE("of a run the newest state that can be exported is taken", "[interop]") {
  ScratchFolder scratch;
  const fs::path root = scratch.path() / "checkpoints";
  const fs::path good = save_weights(root, golden("llama"));
  CHECK(choose_checkpoint(scratch.path(), std::nullopt, unless_exportable).folder == good);
  CHECK(choose_checkpoint(root, 7, unless_exportable).folder == good);
  CHECK(choose_checkpoint(good, std::nullopt, unless_exportable).folder == good);
  save_once(root, 1, 8, 1);
  fs::remove(root / "step-00000008/COMMITTED");
  const ChosenCheckpoint chosen = choose_checkpoint(root, std::nullopt, unless_exportable);
  CHECK(chosen.folder == good);
  REQUIRE(chosen.passed_over.size() == 1);
  says(chosen.passed_over[0], "step-00000008 (incomplete): it was never committed");
  CHECK_THROWS_AS(choose_checkpoint(root, 9, unless_exportable), Error);
  CHECK_THROWS_AS(choose_checkpoint(scratch.path() / "nowhere", std::nullopt, unless_exportable), Error);
  ScratchFolder other;
  SaveOptions exploded;
  exploded.loss = std::numeric_limits<double>::infinity();
  save_weights(other.path(), golden("llama"), exploded);
  try {
    choose_checkpoint(other.path(), std::nullopt, unless_exportable);
    FAIL("a state that cannot be exported was chosen");
  } catch (const Error& e) {
    says(e.what(), "its kind is intermediate");
  }
}
