// tests/unit/interop/hf_model_test.cpp -- config.json files as published models have them, as model sections.
#include "interop/hf_model.h"

#include <cmath>

#include "base/error.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using nlohmann::json;

namespace {

std::string refusal(const json& config, const std::vector<std::string>& harmless = {}) {
  try {
    hf_model(config.dump(), "config.json", harmless);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::input);
    return e.what();
  }
  return "";
}

void says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

const json kGpt2 =
    json::parse(R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,
  "bos_token_id":50256,"embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,"layer_norm_epsilon":1e-05,
  "model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,"resid_pdrop":0.1,
  "summary_activation":null,"summary_first_dropout":0.1,"summary_proj_to_labels":true,"summary_type":"cls_index",
  "summary_use_proj":true,"task_specific_params":{"text-generation":{"do_sample":true,"max_length":50}},
  "vocab_size":50257})");
const json kLlama = json::parse(R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
  "bos_token_id":128000,"eos_token_id":[128001,128008],"head_dim":64,"hidden_act":"silu","hidden_size":2048,
  "initializer_range":0.02,"intermediate_size":8192,"max_position_embeddings":131072,"mlp_bias":false,
  "model_type":"llama","num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"pretraining_tp":1,
  "rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
  "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,
  "torch_dtype":"bfloat16","transformers_version":"4.45.0.dev0","use_cache":true,"vocab_size":128256})");
const json kQwen2 = json::parse(R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,
  "eos_token_id":151643,"hidden_act":"silu","hidden_size":896,"initializer_range":0.02,"intermediate_size":4864,
  "max_position_embeddings":32768,"max_window_layers":24,"model_type":"qwen2","num_attention_heads":14,
  "num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":32768,
  "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,
  "use_sliding_window":false,"vocab_size":151936})");
const json kQwen3 = json::parse(R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
  "bos_token_id":151643,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":1024,
  "initializer_range":0.02,"intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,
  "model_type":"qwen3","num_attention_heads":16,"num_hidden_layers":28,"num_key_value_heads":8,"rms_norm_eps":1e-06,
  "rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
  "transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,"vocab_size":151936})");

json with(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}

}  // namespace

TEST_CASE("config.json files of the four families give the model section they mean", "[interop]") {
  const HfModel gpt2 = hf_model(kGpt2.dump(), "gpt2");
  CHECK(gpt2.config.family == "gpt2");
  CHECK(gpt2.config.d_model == 768);
  CHECK(gpt2.config.head_dim == 64);
  CHECK(gpt2.config.kv_heads == 12);
  CHECK(gpt2.config.d_ff == 3072);
  CHECK(gpt2.config.max_positions == 1024);
  CHECK(gpt2.config.activation == "gelu_tanh");
  CHECK(gpt2.config.tie_embeddings);
  CHECK(gpt2.config.dropout == 0.1);
  CHECK(gpt2.notes.size() == 1);  // dropout of attention weights
  CHECK(json::parse(gpt2.special_ids)["eos_token_id"] == 50256);

  const HfModel llama = hf_model(kLlama.dump(), "llama");
  CHECK(llama.config.layers == 16);
  CHECK(llama.config.kv_heads == 8);
  CHECK(llama.config.head_dim == 64);
  CHECK(llama.config.vocab.value == 128256);
  CHECK(llama.config.norm_eps == 1e-5);
  CHECK(llama.config.rope.theta == 500000);
  CHECK(llama.config.rope.scaling == "llama3");
  CHECK(llama.config.rope.factor == 32);
  CHECK(llama.config.rope.original_positions == 8192);
  CHECK(json::parse(llama.special_ids)["eos_token_id"] == json::array({128001, 128008}));
  CHECK(json::parse(llama.special_ids)["pad_token_id"].is_null());

  const HfModel qwen2 = hf_model(kQwen2.dump(), "qwen2");
  CHECK(qwen2.config.head_dim == 64);
  CHECK(qwen2.config.rope.scaling == "none");
  CHECK(qwen2.config.rope.theta == 1e6);
  const HfModel qwen3 = hf_model(kQwen3.dump(), "qwen3");
  CHECK(qwen3.config.head_dim == 128);
  CHECK(qwen3.config.heads == 16);
}

TEST_CASE("fields that are absent have the defaults of their class", "[interop]") {
  const json bare = {{"model_type", "llama"},         {"vocab_size", 100},       {"hidden_size", 64},
                     {"num_hidden_layers", 2},        {"intermediate_size", 96}, {"num_attention_heads", 4},
                     {"max_position_embeddings", 128}};
  const ModelConfig m = hf_model(bare.dump(), "bare").config;
  CHECK(m.kv_heads == 4);
  CHECK(m.head_dim == 16);
  CHECK(m.norm_eps == 1e-6);
  CHECK(m.rope.theta == 10000);
  CHECK_FALSE(m.tie_embeddings);
  for (const auto& [key, value] : bare.items()) {
    if (key == "model_type") continue;
    json without = bare;
    without.erase(key);
    says(refusal(without), key + " is missing");
  }
}

TEST_CASE("heads that do not divide the width are refused with keys, values, rule and the nearest legal values",
          "[interop]") {
  json narrow = with(with(kLlama, "hidden_size", 33), "num_attention_heads", 2);
  narrow.erase("head_dim");
  for (const json& config : {narrow, with(narrow, "head_dim", nullptr)}) {
    says(refusal(config), "hidden_size = 33 is not a multiple of num_attention_heads = 2");
    says(refusal(config), "nearest legal hidden_size: 32 or 34");
  }
  says(refusal(with(with(kQwen2, "hidden_size", 33), "num_attention_heads", 2)), "hidden_size = 33 is not a multiple");
  const std::string gpt2 = refusal(with(kGpt2, "n_embd", 769));
  says(gpt2, "n_embd = 769 is not a multiple of n_head = 12");
  says(gpt2, "nearest legal n_embd: 768 or 780");
  const std::string shared = refusal(with(kLlama, "num_key_value_heads", 3));
  says(shared, "num_key_value_heads");
  says(shared, "2 or 4");
}

TEST_CASE("a dtype that weights are not read in is refused by name, under both keys", "[interop]") {
  for (const char* key : {"torch_dtype", "dtype"}) {
    for (const char* legal : {"float32", "bfloat16", "float16", "torch.bfloat16"})
      CHECK(refusal(with(kLlama, key, legal)) == "");
    CHECK(refusal(with(kLlama, key, nullptr)) == "");
    for (const char* other : {"int8", "float8_e4m3fn", "float64", "auto", ""})
      says(refusal(with(kLlama, key, other)), key + std::string(" = \"") + other + "\" is not supported");
    says(refusal(with(kLlama, key, 16)), key + std::string(" = 16 is no text"));
  }
}

TEST_CASE("the rope_parameters of transformers 5 mean the same as rope_theta and rope_scaling", "[interop]") {
  json five = kLlama;
  five["rope_parameters"] = five["rope_scaling"];
  five["rope_parameters"]["rope_theta"] = five["rope_theta"];
  five.erase("rope_scaling");
  five.erase("rope_theta");
  const RopeConfig a = hf_model(kLlama.dump(), "4").config.rope, b = hf_model(five.dump(), "5").config.rope;
  CHECK(a.theta == b.theta);
  CHECK(a.scaling == b.scaling);
  CHECK(a.factor == b.factor);
  CHECK(a.original_positions == b.original_positions);
  says(refusal(with(five, "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}})), "both there and differ");
}

TEST_CASE("what changes results and has no counterpart here is refused by name", "[interop]") {
  const std::vector<std::tuple<json, std::string, json>> cases = {
      {kGpt2, "activation_function", "relu"},
      {kGpt2, "scale_attn_weights", false},
      {kGpt2, "scale_attn_by_inverse_layer_idx", true},
      {kGpt2, "add_cross_attention", true},
      {kGpt2, "architectures", {"GPT2ForSequenceClassification"}},
      {kLlama, "hidden_act", "gelu"},
      {kLlama, "attention_bias", true},
      {kLlama, "mlp_bias", true},
      {kLlama, "sliding_window", 4096},
      {kLlama, "partial_rotary_factor", 0.5},
      {kLlama, "quantization_config", {{"bits", 4}}},
      {kLlama, "rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}},
      {kLlama, "rope_scaling", {{"rope_type", "longrope"}, {"factor", 2.0}}},
      {kLlama, "rope_scaling", {{"rope_type", "linear"}}},
      {kLlama, "rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}},
      {kLlama, "rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"short_factor", {1, 2}}}},
      {kLlama, "rope_scaling", "linear"},
      {kLlama, "attention_multiplier", 0.5},
      {kLlama, "logit_scale", 0.0625},
      {kQwen2, "use_sliding_window", true},
      {kQwen3, "layer_types", {"full_attention", "sliding_attention"}},
      {kQwen3, "attention_bias", true},
      {kQwen3, "num_attention_heads", 16.5},
      {kQwen3, "tie_word_embeddings", "yes"},
      {kQwen3, "rms_norm_eps", "small"},
      {kLlama, "model_type", "mixtral"},
  };
  for (const auto& [config, key, value] : cases) {
    INFO(key << " = " << value);
    const std::string message = refusal(with(config, key, value));
    says(message, key);
  }
  CHECK(refusal(with(kQwen3, "layer_types", {"full_attention", "full_attention"})) == "");
  CHECK(refusal(with(kLlama, "logit_scale", nullptr)) == "");
  CHECK(refusal(with(kLlama, "logit_scale", 1), {"logit_scale"}) == "");

  json several = kLlama;
  several["mlp_bias"] = true;
  several["hidden_act"] = "relu";
  several["strange"] = 1;
  const std::string message = refusal(several);
  for (const char* part : {"mlp_bias", "hidden_act", "strange", "--harmless strange"}) says(message, part);
}

TEST_CASE("sizes that no model can have are refused before anything is allocated", "[interop]") {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"})
    for (const json& value :
         {json(-1), json(0), json(INT64_MAX), json(UINT64_MAX), json(1e30), json("8"), json(true)}) {
      INFO(key << " = " << value);
      CHECK(refusal(with(kLlama, key, value)) != "");
    }
  CHECK(refusal(with(kLlama, "num_key_value_heads", 7)) != "");
}

TEST_CASE("a YaRN factor that releases of transformers read differently is refused", "[interop]") {
  json config =
      with(kQwen2, "rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}});
  says(refusal(config), "make them agree");
  config["max_position_embeddings"] = 131072;
  const RopeConfig rope = hf_model(config.dump(), "yarn").config.rope;
  CHECK(rope.scaling == "yarn");
  CHECK(rope.original_positions == 32768);
  CHECK(*rope.attention_factor == 0.1 * std::log(4.0) + 1);
  config["rope_scaling"]["mscale"] = 0.7;
  says(refusal(config), "mscale");
}
