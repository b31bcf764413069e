// tests/unit/interop/gguf_test.cpp -- GGUF exports, read with a reader of their own.
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "checkpoint/scan.h"
#include "gguf_reader.h"
#include "interop/gguf_export.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const std::map<std::string, std::string> kRenamed = {{"token_embd", "embedding"},
                                                     {"position_embd", "position_embedding"},
                                                     {"output_norm", "final_norm"},
                                                     {"output", "head"},
                                                     {"attn_norm", "attention_norm"},
                                                     {"ffn_norm", "ffn_norm"},
                                                     {"attn_q", "attention.q"},
                                                     {"attn_k", "attention.k"},
                                                     {"attn_v", "attention.v"},
                                                     {"attn_output", "attention.o"},
                                                     {"attn_q_norm", "attention.q_norm"},
                                                     {"attn_k_norm", "attention.k_norm"},
                                                     {"ffn_gate", "ffn.gate"},
                                                     {"ffn_up", "ffn.up"},
                                                     {"ffn_down", "ffn.down"}};

// llama.cpp's names and row order back to trainctl's. A llama head's channels are pairs (2i, 2i + 1) in the file.
Weights back_to_trainctl(const GgufFile& file) {
  const bool llama = file.keys.at("general.architecture") == "llama";
  Weights weights;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == "rope_freqs.weight") continue;
    const size_t dot = name.rfind('.');
    std::string module = name.substr(0, dot), prefix;
    if (module.starts_with("blk.")) {
      prefix = "layers." + module.substr(4, module.find('.', 4) - 4) + ".";
      module = module.substr(module.find('.', 4) + 1);
    }
    Values v;
    for (size_t d = tensor.dims.size(); d-- > 0;) v.shape.push_back(static_cast<int64_t>(tensor.dims[d]));
    v.data = decode(tensor);
    if (llama && (module == "attn_q" || module == "attn_k")) {
      const json& heads =
          file.keys.at(module == "attn_q" ? "llama.attention.head_count" : "llama.attention.head_count_kv");
      const size_t columns = static_cast<size_t>(v.shape[1]),
                   per_head = static_cast<size_t>(v.shape[0]) / heads.get<size_t>();
      std::vector<float> straight(v.data.size());
      for (size_t row = 0; row < static_cast<size_t>(v.shape[0]); ++row) {
        const size_t head = row / per_head, channel = row % per_head, half = per_head / 2;
        const size_t in_file = head * per_head + 2 * (channel % half) + channel / half;
        std::copy_n(v.data.begin() + static_cast<ptrdiff_t>(in_file * columns), columns,
                    straight.begin() + static_cast<ptrdiff_t>(row * columns));
      }
      v.data = straight;
    }
    if (module == "attn_qkv") {
      const size_t third = v.data.size() / 3;
      v.shape[0] /= 3;
      for (size_t i = 0; i < 3; ++i) {
        const float* begin = v.data.data() + i * third;
        weights[prefix + "attention." + "qkv"[i] + name.substr(dot)] = {v.shape, {begin, begin + third}};
      }
      continue;
    }
    weights[prefix + kRenamed.at(module) + name.substr(dot)] = v;
  }
  return weights;
}

GgufFile exported(const Golden& g, GgufType type, GgufExportReport* report = nullptr, const SaveOptions& save = {}) {
  ScratchFolder scratch;
  GgufExportOptions options;
  options.type = type;
  const GgufExportReport r =
      export_gguf(save_weights(scratch.path() / "checkpoints", g, save), scratch.path() / "out.gguf", options);
  CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "out.gguf"});
  if (report != nullptr) *report = r;
  return read_gguf(scratch.path() / "out.gguf");
}

std::string refusal(const Golden& g, GgufType type = GgufType::f32) {
  ScratchFolder scratch;
  try {
    GgufExportOptions options;
    options.type = type;
    export_gguf(save_weights(scratch.path() / "checkpoints", g), scratch.path() / "out.gguf", options);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::checkpoint);
    CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints"});
    return e.what();
  }
  return "";
}

void says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a GGUF file of every golden model maps back to the same bits, and its keys say the model", "[interop]") {
  for (const std::string& name : kGoldenCases) {
    if (name == "gpt2_gelu_exact") continue;  // llama.cpp has no such model
    INFO(name);
    const Golden g = golden(name);
    const json& m = g.model;
    SaveOptions two;
    two.world = 2;
    GgufExportReport report;
    const GgufFile file = exported(g, GgufType::f32, &report, two);
    CHECK(back_to_trainctl(file) == g.weights);
    CHECK(report.tensors == static_cast<int64_t>(file.tensors.size()));
    const std::string arch = m["family"];
    const auto key = [&](const std::string& k) { return file.keys.at(arch + "." + k); };
    CHECK(file.keys.at("general.architecture") == arch);
    CHECK(file.keys.at("general.file_type") == 0);
    CHECK(file.keys.at("trainctl.manifest_sha256") == report.manifest_sha256);
    CHECK(key("vocab_size") == m["vocab"]);
    CHECK(key("context_length") == m["max_positions"]);
    CHECK(key("embedding_length") == m["d_model"]);
    CHECK(key("block_count") == m["layers"]);
    CHECK(key("feed_forward_length") == m["d_ff"]);
    CHECK(key("attention.head_count") == m["heads"]);
    CHECK(key("attention.head_count_kv") == m["kv_heads"]);
    CHECK(file.tensors.contains("output.weight") != m["tie_embeddings"].get<bool>());
    CHECK(file.keys.at("tokenizer.ggml.model") == "none");  // 97 ids do not hold the bytes
    if (arch == "gpt2") {
      CHECK(key("attention.layer_norm_epsilon") == m["norm_eps"].get<float>());
      continue;
    }
    CHECK(key("attention.layer_norm_rms_epsilon") == m["norm_eps"].get<float>());
    CHECK(key("attention.key_length") == m["head_dim"]);
    CHECK(key("attention.value_length") == m["head_dim"]);
    CHECK(key("rope.dimension_count") == m["head_dim"]);
    CHECK(key("rope.freq_base") == m["rope"]["theta"].get<float>());
    const std::string scaling = m["rope"]["scaling"];
    const bool typed = scaling == "linear" || scaling == "yarn";
    CHECK(file.keys.contains(arch + ".rope.scaling.type") == typed);
    if (typed) {
      CHECK(key("rope.scaling.type") == scaling);
      CHECK(key("rope.scaling.factor") == m["rope"]["factor"]);
    }
    if (scaling == "yarn") {
      CHECK(key("rope.scaling.original_context_length") == m["rope"]["original_positions"]);
      CHECK_FALSE(file.keys.contains(arch + ".rope.scaling.attn_factor"));  // the usual one
    }
    CHECK(file.tensors.contains("rope_freqs.weight") == (scaling == "llama3"));
    if (scaling == "llama3") {
      // Radians per position that transformers used (tests/golden/hf/README.md).
      const std::vector<double> used = {1,           0.2374897,   0.03118546,  0.01215616,
                                        0.005590170, 0.002570714, 0.001182177, 0.0005436398};
      const std::vector<float> divisors = decode(file.tensors.at("rope_freqs.weight"));
      REQUIRE(divisors.size() == used.size());
      for (size_t j = 0; j < used.size(); ++j)
        CHECK(std::pow(500.0, -static_cast<double>(j) / 8) / divisors[j] == Approx(used[j]).epsilon(1e-6));
    }
  }
}

TEST_CASE("BF16, F16 and Q8_0 hold each element to their precision, vectors stay F32", "[interop]") {
  for (const char* name : {"gpt2", "llama", "llama_tied", "qwen3"})
    for (const auto& [type, number] :
         {std::pair(GgufType::bf16, kBf16), std::pair(GgufType::f16, kF16), std::pair(GgufType::q8_0, kQ8)}) {
      INFO(name << " in " << number);
      const Golden g = golden(name);
      GgufExportReport report;
      const GgufFile file = exported(g, type, &report);
      const Weights read = back_to_trainctl(file);
      REQUIRE(read.size() == g.weights.size());
      int64_t other = 0;
      for (const auto& [tensor, t] : file.tensors) {
        const bool matrix = t.dims.size() == 2 && tensor != "position_embd.weight";
        const uint32_t expected = !matrix ? kF32 : number == kQ8 && t.dims[0] % 32 != 0 ? kF16 : number;
        other += matrix && expected != number;
        INFO(tensor);
        CHECK(t.type == expected);
      }
      CHECK(report.notes.size() == (other > 0 ? 2u : 1u));                         // the tokenizer is the other one
      CHECK((other > 0) == (number == kQ8 && std::string(name) == "llama_tied"));  // rows of 48
      double worst = 0;
      for (const auto& [tensor, values] : g.weights) {
        const std::vector<float>& got = read.at(tensor).data;
        const size_t columns = static_cast<size_t>(values.shape.back());
        for (size_t i = 0; i < got.size(); ++i) {
          double allowed = std::ldexp(std::fabs(values.data[i]), number == kBf16 ? -8 : -11) + 0x1p-25;
          if (number == kQ8 && columns % 32 == 0) {
            float largest = 0;
            for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32 && k < got.size(); ++k)
              largest = std::max(largest, std::fabs(values.data[k]));
            allowed = largest / 127.0 * 0.5 * 1.002 + largest * 0x1p-11;  // the scale is rounded to f16
          }
          worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - values.data[i]) / allowed);
        }
      }
      CHECK(worst <= 1.0);
      CHECK(worst > 0.3);  // it is rounded, after all
    }
}

TEST_CASE("of bf16 weights every type is converted from the masters, where there are any", "[interop]") {
  for (const char* family : {"gpt2", "llama"}) {
    INFO(family);
    const Golden g = golden(family);
    SaveOptions narrow, mixed, bare;
    narrow.dtype = mixed.dtype = bare.dtype = DType::bf16;
    mixed.no_master = "attention.k";  // GPT-2 stacks it with q and v
    bare.no_master = ".";             // every name has one
    Weights rounded = g.weights, partly = g.weights;
    for (auto& [name, values] : rounded)
      for (float& x : values.data) x = static_cast<float>(bf16(x));
    for (auto& [name, values] : partly)
      if (name.find("attention.k") != std::string::npos) values = rounded.at(name);
    GgufExportReport report;
    for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
      INFO(name(type));
      CHECK(back_to_trainctl(exported(g, type, nullptr, narrow)) == back_to_trainctl(exported(g, type)));
      CHECK(back_to_trainctl(exported(g, type, &report, mixed)) == back_to_trainctl(exported({g.model, partly}, type)));
    }
    CHECK(report.source.at("weight") == std::ssize(g.weights) - report.source.at("master"));
    CHECK(back_to_trainctl(exported(g, GgufType::f32, nullptr, bare)) == rounded);
    CHECK(back_to_trainctl(exported(g, GgufType::f32, nullptr, narrow)) == g.weights);
  }
}

TEST_CASE("the byte tokenizer is byte-level BPE without merges, ids beyond it are unused", "[interop]") {
  Golden g = golden("llama");
  g.model["vocab"] = 260;
  for (const char* name : {"embedding.weight", "head.weight"})
    g.weights[name] = {{260, 32}, std::vector<float>(260 * 32, 0.5f)};
  GgufExportReport report;
  const GgufFile file = exported(g, GgufType::f32, &report);
  CHECK(report.notes.empty());
  const json& tokens = file.keys.at("tokenizer.ggml.tokens");
  const json& types = file.keys.at("tokenizer.ggml.token_type");
  REQUIRE(tokens.size() == 260);
  REQUIRE(types.size() == 260);
  CHECK(std::set<std::string>(tokens.begin(), tokens.end()).size() == 260);
  CHECK(tokens['a'] == "a");
  CHECK(tokens[' '] == "\u0120");
  for (size_t id = 0; id < 260; ++id) CHECK(types[id] == (id < 256 ? 1 : id == 256 ? 3 : 5));
  CHECK(file.keys.at("tokenizer.ggml.model") == "gpt2");
  CHECK(file.keys.at("tokenizer.ggml.merges").empty());
  CHECK(file.keys.at("tokenizer.ggml.eos_token_id") == 256);
  CHECK(file.keys.at("tokenizer.ggml.add_bos_token") == false);
}

TEST_CASE("what llama.cpp does not compute, and what a type cannot hold, is refused by name", "[interop]") {
  says(refusal(golden("gpt2_gelu_exact")), "model.activation \"gelu\"");
  Golden qwen = golden("qwen2");
  qwen.model["rope"] = golden("llama_rope_llama3").model["rope"];
  says(refusal(qwen), "model.rope.scaling \"llama3\"");
  Golden yarn = golden("llama_rope_yarn");
  yarn.model["rope"]["beta_fast"] = 16;
  says(refusal(yarn), "beta_fast 16");

  Golden large = golden("llama");
  large.weights["layers.1.ffn.up.weight"].data[5] = 70000;
  says(refusal(large, GgufType::f16), "blk.1.ffn_up.weight: 1 values");
  CHECK(refusal(large, GgufType::q8_0) == "");
  large.weights["layers.1.ffn.up.weight"].data[5] = 1e8f;
  says(refusal(large, GgufType::q8_0), "blk.1.ffn_up.weight: 1 values");
  CHECK(refusal(large, GgufType::bf16) == "");

  Golden incomplete = golden("llama");
  incomplete.weights.erase("final_norm.weight");
  says(refusal(incomplete), "missing final_norm.weight");
}

TEST_CASE("a GGUF file replaces an earlier one of ours and nothing else", "[interop]") {
  ScratchFolder scratch;
  const fs::path checkpoint = save_weights(scratch.path() / "checkpoints", golden("llama_tied"));
  const fs::path out = scratch.path() / "models/out.gguf";
  const auto refused = [&](const fs::path& output) {
    try {
      export_gguf(checkpoint, output);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused(out));
  GgufExportOptions half;
  half.type = GgufType::f16;
  export_gguf(checkpoint, out, half);
  CHECK(read_gguf(out).keys.at("general.file_type") == 1);
  put_bytes(scratch.path() / "other.gguf", "GGUF of somebody else");
  put_bytes(scratch.path() / "notes.txt", "precious");
  fs::create_symlink(out, scratch.path() / "link.gguf");
  for (const char* name : {"other.gguf", "notes.txt", "link.gguf", "models", "checkpoints/step-00000007/x.gguf"}) {
    INFO(name);
    CHECK(refused(scratch.path() / name));
  }
  CHECK(file_bytes(scratch.path() / "notes.txt") == "precious");

  const std::string before = file_bytes(out);
  int64_t calls = 0;
  half.progress = [&calls](int64_t, int64_t) { ++calls; };
  export_gguf(checkpoint, scratch.path() / "models/counted.gguf", half);
  fs::remove(scratch.path() / "models/counted.gguf");
  for (int64_t kill_at = 1; kill_at <= calls; kill_at += 3) {
    GgufExportOptions options;
    options.progress = [kill_at, n = int64_t{0}](int64_t, int64_t) mutable {
      if (++n == kill_at) ::_exit(9);
    };
    in_child([&] { export_gguf(checkpoint, out, options); });
    CHECK(file_bytes(out) == before);
  }
  half.progress = {};
  export_gguf(checkpoint, out, half);
  CHECK(names_below(scratch.path() / "models") == std::vector<std::string>{"out.gguf"});
}
