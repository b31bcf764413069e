// tests/unit/interop/hf_golden_test.cpp -- what an export of each golden model holds.
#include <set>

#include "interop/hf_export.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using nlohmann::json;

TEST_CASE("an export of every golden model maps back to the same bits, whatever ranks wrote the checkpoint",
          "[interop]") {
  for (const std::string& name : kGoldenCases)
    for (const int64_t world : {1, 2}) {
      INFO(name << " from " << world << " ranks");
      const Golden g = golden(name);
      ScratchFolder scratch;
      SaveOptions options;
      options.world = world;
      const auto folder = save_weights(scratch.path() / "checkpoints", g, options);
      const HfExportReport report = export_hf(folder, scratch.path() / "out");
      const auto exported = read_export(scratch.path() / "out");
      CHECK(report.tensors == static_cast<int64_t>(exported.size()));
      CHECK(back_to_trainctl(exported) == g.weights);
      for (const auto& [tensor, what] : exported) CHECK(what.dtype == "F32");
    }
}

TEST_CASE("exported tensors have the names and shapes that the classes of transformers declare", "[interop]") {
  struct Expected {
    std::string name;
    size_t tensors;
    std::map<std::string, std::vector<int64_t>> shapes;
  };
  const std::string l = "model.layers.0.";
  const std::vector<Expected> all = {
      {"gpt2",
       2 + 3 * 12 + 2,
       {{"transformer.wte.weight", {97, 32}},
        {"transformer.wpe.weight", {40, 32}},
        {"transformer.h.2.attn.c_attn.weight", {32, 96}},
        {"transformer.h.2.attn.c_attn.bias", {96}},
        {"transformer.h.0.attn.c_proj.weight", {32, 32}},
        {"transformer.h.0.mlp.c_fc.weight", {32, 96}},
        {"transformer.h.0.mlp.c_proj.weight", {96, 32}},
        {"transformer.h.1.ln_2.bias", {32}},
        {"transformer.ln_f.weight", {32}}}},
      {"llama",
       1 + 3 * 9 + 2,
       {{"model.embed_tokens.weight", {97, 32}},
        {l + "self_attn.k_proj.weight", {16, 32}},
        {l + "self_attn.o_proj.weight", {32, 32}},
        {l + "mlp.gate_proj.weight", {96, 32}},
        {l + "mlp.down_proj.weight", {32, 96}},
        {l + "post_attention_layernorm.weight", {32}},
        {"model.norm.weight", {32}},
        {"lm_head.weight", {97, 32}}}},
      {"llama_tied",
       1 + 2 * 9 + 1,
       {{l + "self_attn.q_proj.weight", {48, 32}}, {l + "self_attn.o_proj.weight", {32, 48}}}},
      {"qwen2", 1 + 2 * 12 + 2, {{l + "self_attn.q_proj.bias", {32}}, {l + "self_attn.v_proj.bias", {16}}}},
      {"qwen3", 1 + 2 * 11 + 1, {{l + "self_attn.q_norm.weight", {16}}, {l + "self_attn.k_norm.weight", {16}}}}};
  for (const Expected& e : all) {
    INFO(e.name);
    ScratchFolder scratch;
    export_hf(save_weights(scratch.path() / "checkpoints", golden(e.name)), scratch.path() / "out");
    const auto exported = read_export(scratch.path() / "out");
    CHECK(exported.size() == e.tensors);
    for (const auto& [tensor, shape] : e.shapes) {
      INFO(tensor);
      REQUIRE(exported.contains(tensor));
      CHECK(exported.at(tensor).values.shape == shape);
    }
  }
}

TEST_CASE("config.json says every field of the model in the words of transformers", "[interop]") {
  const std::map<std::string, std::string> classes = {{"gpt2", "GPT2LMHeadModel"},
                                                      {"llama", "LlamaForCausalLM"},
                                                      {"qwen2", "Qwen2ForCausalLM"},
                                                      {"qwen3", "Qwen3ForCausalLM"}};
  for (const std::string& name : kGoldenCases) {
    INFO(name);
    const Golden g = golden(name);
    const json& m = g.model;
    ScratchFolder scratch;
    export_hf(save_weights(scratch.path() / "checkpoints", g), scratch.path() / "out");
    const json c = read_json(scratch.path() / "out/config.json");
    CHECK(c["architectures"] == json::array({classes.at(m["family"])}));
    CHECK(c["model_type"] == m["family"]);
    CHECK(c["vocab_size"] == m["vocab"]);
    CHECK(c["tie_word_embeddings"] == m["tie_embeddings"]);
    CHECK(c["torch_dtype"] == "float32");
    CHECK(c["eos_token_id"].is_null());  // 97 ids: none ends a document
    if (m["family"] == "gpt2") {
      CHECK(c["n_layer"] == m["layers"]);
      CHECK(c["n_embd"] == m["d_model"]);
      CHECK(c["n_head"] == m["heads"]);
      CHECK(c["n_inner"] == m["d_ff"]);
      CHECK(c["n_positions"] == m["max_positions"]);
      CHECK(c["layer_norm_epsilon"] == m["norm_eps"]);
      CHECK(c["activation_function"] == (name == "gpt2" ? "gelu_new" : "gelu"));
      continue;
    }
    CHECK(c["num_hidden_layers"] == m["layers"]);
    CHECK(c["hidden_size"] == m["d_model"]);
    CHECK(c["num_attention_heads"] == m["heads"]);
    CHECK(c["num_key_value_heads"] == m["kv_heads"]);
    CHECK(c["head_dim"] == m["head_dim"]);
    CHECK(c["intermediate_size"] == m["d_ff"]);
    CHECK(c["max_position_embeddings"] == m["max_positions"]);
    CHECK(c["rms_norm_eps"] == m["norm_eps"]);
    CHECK(c["hidden_act"] == "silu");
    CHECK(c["rope_theta"] == m["rope"]["theta"]);
    if (m["rope"]["scaling"] == "none") {
      CHECK(c["rope_scaling"].is_null());
      continue;
    }
    json expected = m["rope"];
    expected.erase("theta");
    expected["rope_type"] = expected["type"] = expected["scaling"];
    expected.erase("scaling");
    if (expected.contains("original_positions")) {
      expected["original_max_position_embeddings"] = expected["original_positions"];
      expected.erase("original_positions");
    }
    CHECK(c["rope_scaling"] == expected);
  }
}

TEST_CASE("the end of a document is named where the vocabulary holds it", "[interop]") {
  Golden g = golden("llama");
  g.model["vocab"] = 257;
  for (const char* name : {"embedding.weight", "head.weight"})
    g.weights[name] = {{257, 32}, std::vector<float>(257 * 32, 0.5f)};
  ScratchFolder scratch;
  const HfExportReport report = export_hf(save_weights(scratch.path() / "checkpoints", g), scratch.path() / "out");
  CHECK(read_json(scratch.path() / "out/config.json")["eos_token_id"] == 256);
  CHECK(read_json(scratch.path() / "out/generation_config.json")["eos_token_id"] == 256);
  CHECK(report.notes.empty());
  // Byte-level BPE without merges: one visible character per byte, so every text becomes its bytes.
  const json tokenizer = read_json(scratch.path() / "out/tokenizer.json");
  CHECK(tokenizer["model"]["merges"].empty());
  std::set<std::string> texts;
  std::map<int64_t, std::string> text_of;
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) {
    texts.insert(text);
    text_of[id] = text;
  }
  CHECK(texts.size() == 257);
  for (int byte = 0x21; byte < 0x7f; ++byte) CHECK(text_of[byte] == std::string(1, static_cast<char>(byte)));
  CHECK(text_of[' '] == "\u0120");  // as in the published tokenizer of GPT-2
  CHECK(text_of['\n'] == "\u010a");
  CHECK(text_of[0] == "\u0100");
  CHECK(text_of[0xad] == "\u0143");
  CHECK(text_of[0xff] == "\u00ff");
  CHECK(text_of[256] == "<|endoftext|>");
  CHECK(read_json(scratch.path() / "out/tokenizer_config.json")["eos_token"] == "<|endoftext|>");
}

namespace {

// Every weight of role "weight" in a checkpoint whose weights are bf16, widened.
Weights stored_weights(const std::filesystem::path& checkpoint) {
  CheckpointReader reader(checkpoint);
  Weights all;
  for (const TensorRecord& t : reader.manifest().tensors) {
    if (t.role != "weight") continue;
    std::vector<bf16> data(static_cast<size_t>(t.shape.numel()));
    reader.read(t, whole(t.shape), DType::bf16, data.data());
    Values& values = all[t.name];
    for (int d = 0; d < t.shape.rank(); ++d) values.shape.push_back(t.shape[d]);
    for (const bf16 x : data) values.data.push_back(static_cast<float>(x));
  }
  return all;
}

Weights exported_weights(const std::filesystem::path& checkpoint, DType dtype, HfExportReport* report = nullptr) {
  ScratchFolder scratch;
  HfExportOptions options;
  options.dtype = dtype;
  const HfExportReport made = export_hf(checkpoint, scratch.path() / "out", options);
  if (report != nullptr) *report = made;
  CHECK(read_json(scratch.path() / "out/trainctl_export.json")["weights_from"] == nlohmann::json(made.source));
  const char* torch = dtype == DType::bf16 ? "bfloat16" : "float32";
  CHECK(read_json(scratch.path() / "out/config.json")["torch_dtype"] == torch);
  const auto tensors = read_export(scratch.path() / "out");
  for (const auto& [name, what] : tensors) CHECK(what.dtype == (dtype == DType::bf16 ? "BF16" : "F32"));
  return back_to_trainctl(tensors);
}

}  // namespace

TEST_CASE("of bf16 weights the f32 masters are exported: their bits in f32, the weights' bits in bf16", "[interop]") {
  for (const char* family : {"gpt2", "qwen3"})
    for (const int64_t world : {1, 2}) {
      INFO(family << ", ranks: " << world);
      const Golden g = golden(family);
      Weights rounded = g.weights;
      for (auto& [name, values] : rounded)
        for (float& x : values.data) x = static_cast<float>(bf16(x));
      REQUIRE(rounded != g.weights);
      ScratchFolder scratch;
      SaveOptions options;
      options.world = world;
      const auto wide = save_weights(scratch.path() / "wide", g, options);
      options.dtype = DType::bf16;
      const auto narrow = save_weights(scratch.path() / "narrow", g, options);
      CHECK(stored_weights(narrow) == rounded);
      HfExportReport report;
      CHECK(exported_weights(narrow, DType::f32, &report) == g.weights);
      CHECK(report.source == WeightSource{{"master", std::ssize(g.weights)}});
      CHECK(exported_weights(narrow, DType::bf16) == rounded);
      CHECK(exported_weights(wide, DType::bf16, &report) == rounded);
      CHECK(report.source == WeightSource{{"weight", std::ssize(g.weights)}});
      // GPT-2 stacks k with q and v: a tensor of both sources.
      options.no_master = "attention.k";
      const auto mixed = save_weights(scratch.path() / "mixed", g, options);
      Weights partly = g.weights;
      for (auto& [name, values] : partly)
        if (name.find("attention.k") != std::string::npos) values = rounded.at(name);
      CHECK(exported_weights(mixed, DType::f32, &report) == partly);
      CHECK(report.source.at("master") + report.source.at("weight") == std::ssize(g.weights));
      CHECK(exported_weights(mixed, DType::bf16) == rounded);
    }
}
