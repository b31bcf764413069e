// tests/unit/interop/hf_import_fault_test.cpp -- folders that are refused, and what a refused import leaves: nothing.
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "checkpoint/scan.h"
#include "interop/hf_export.h"
#include "interop/hf_import.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// A good folder in scratch/hf, to be spoiled.
struct Spoilt {
  explicit Spoilt(const std::string& name, int64_t shard = 5'000'000'000) {
    HfExportOptions options;
    options.max_shard_bytes = shard;
    export_hf(save_weights(scratch.path() / "checkpoints", golden(name)), folder(), options);
    fs::remove(folder() / "trainctl_export.json");  // a folder of any other program
    config = read_json(folder() / "config.json");
    if (shard == 5'000'000'000) tensors = raw_tensors(folder() / "model.safetensors");
  }
  fs::path folder() const { return scratch.path() / "hf"; }
  void put() const { put_hf_folder(folder(), config, tensors); }

  // The message; "" when the import went through. Checks that nothing is left beside the source.
  std::string refusal(ErrorKind kind = ErrorKind::input) const {
    try {
      import_hf(folder(), scratch.path() / "out");
    } catch (const Error& e) {
      INFO(e.what());
      CHECK(e.kind() == kind);
      CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "hf"});
      return e.what();
    }
    return "";
  }

  ScratchFolder scratch;
  json config;
  RawTensors tensors;
};

void says(const std::string& message, const std::string& part) {
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("missing, unexpected, mis-shaped tensors and foreign dtypes are all named at once", "[interop]") {
  Spoilt s("llama");
  s.tensors.erase("model.layers.1.mlp.up_proj.weight");
  s.tensors.erase("lm_head.weight");
  s.tensors["model.layers.0.self_attn.q_proj.bias"] = raw_f32({32}, std::vector<float>(32, 1));
  std::swap(s.tensors["model.layers.2.mlp.down_proj.weight"].shape[0],
            s.tensors["model.layers.2.mlp.down_proj.weight"].shape[1]);
  RawTensor& norm = s.tensors["model.norm.weight"];
  norm = {"F64", {32}, norm.bytes + norm.bytes};
  s.put();
  const std::string message = s.refusal();
  says(message, "missing model.layers.1.mlp.up_proj.weight [96, 32]");
  says(message, "missing lm_head.weight");
  says(message, "unexpected \"model.layers.0.self_attn.q_proj.bias\" F32 [32]");
  says(message, "model.layers.2.mlp.down_proj.weight is [96, 32], not [32, 96]");
  says(message, "model.norm.weight is F64");
}

TEST_CASE("a head that contradicts tie_word_embeddings is refused by name", "[interop]") {
  Spoilt s("llama_tied");
  s.tensors["lm_head.weight"] = s.tensors.at("model.embed_tokens.weight");
  s.tensors["lm_head.weight"].bytes.back() ^= 1;
  s.put();
  says(s.refusal(), "lm_head.weight differs from model.embed_tokens.weight");
}

TEST_CASE("infinities and NaNs are counted by tensor, and nothing is left", "[interop]") {
  Spoilt s("qwen2");
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::memcpy(s.tensors["model.norm.weight"].bytes.data() + 8, &nan, 4);
  std::memcpy(s.tensors["lm_head.weight"].bytes.data() + 40, &infinity, 4);
  s.put();
  const std::string message = s.refusal();
  says(message, "model.norm.weight holds 1 infinities or NaNs");
  says(message, "lm_head.weight holds 1 infinities or NaNs");
}

TEST_CASE("a file of weights cut or grown at any place is refused", "[interop]") {
  const Spoilt s("llama_tied");
  const std::string whole = file_bytes(s.folder() / "model.safetensors");
  for (const size_t bytes :
       {size_t{0}, size_t{7}, size_t{8}, size_t{100}, size_t{4000}, whole.size() / 2, whole.size() - 1}) {
    INFO(bytes);
    put_bytes(s.folder() / "model.safetensors", whole.substr(0, bytes));
    says(s.refusal(), "model.safetensors");
  }
  put_bytes(s.folder() / "model.safetensors", whole + "x");
  says(s.refusal(), "model.safetensors");
  put_bytes(s.folder() / "model.safetensors", std::string(8, '\xff') + whole.substr(8));
  says(s.refusal(), "header length");
}

TEST_CASE("an index that leaves the folder, or disagrees with its files, is refused with every disagreement",
          "[interop]") {
  Spoilt s("llama", 60'000);
  const json good = read_json(s.folder() / "model.safetensors.index.json");
  const std::string first = good["weight_map"]["model.embed_tokens.weight"],
                    last = good["weight_map"]["lm_head.weight"];
  REQUIRE(first != last);
  const auto with = [&](const std::function<void(json&)>& change) {
    json index = good;
    change(index["weight_map"]);
    put_bytes(s.folder() / "model.safetensors.index.json", index.dump());
    return s.refusal();
  };
  put_bytes(s.scratch.path() / "checkpoints/outside.safetensors", file_bytes(s.folder() / last));
  for (const char* name :
       {"../checkpoints/outside.safetensors", "/etc/passwd", "..", "", "sub/x.safetensors", "config.json"})
    says(with([&](json& map) { map["model.norm.weight"] = name; }), "model.norm.weight");
  says(with([](json& map) { map["model.norm.weight"] = 7; }), "model.norm.weight");
  says(with([](json& map) { map.erase("model.norm.weight"); }), "and not in the index");
  says(with([&](json& map) { map["more"] = first; }), "\"more\" is in the index and not in");
  says(with([&](json& map) { map["model.embed_tokens.weight"] = last; }), "the index says " + last);
  says(with([](json& map) { map["model.norm.weight"] = "model-00009-of-00009.safetensors"; }), "is not in the folder");
  says(with([](json& map) { map = "x"; }), "weight_map");
  put_bytes(s.folder() / "model.safetensors.index.json", "{");
  says(s.refusal(), "model.safetensors.index.json");
  put_bytes(s.folder() / "model.safetensors.index.json", good.dump());
  put_bytes(s.folder() / "model.safetensors", "x");
  says(s.refusal(), "holds both");
}

TEST_CASE("links are not followed", "[interop]") {
  Spoilt s("llama");
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    INFO(name);
    const fs::path real = s.scratch.path() / "checkpoints" / (std::string("real-") + name);
    fs::rename(s.folder() / name, real);
    fs::create_symlink(real, s.folder() / name);
    says(s.refusal(), "is a link");
    fs::remove(s.folder() / name);
    fs::rename(real, s.folder() / name);
  }
  CHECK(s.refusal() == "");
}

TEST_CASE("folders without weights or configuration are refused with what is missing", "[interop]") {
  Spoilt s("llama");
  fs::rename(s.folder() / "config.json", s.scratch.path() / "checkpoints/config.json");
  says(s.refusal(), "config.json");
  put_bytes(s.folder() / "config.json", "[]");
  says(s.refusal(), "no JSON object");
  put_bytes(s.folder() / "config.json", R"({"model_type":"llama","model_type":"qwen2"})");
  says(s.refusal(), "model_type");
  put_bytes(s.folder() / "config.json", s.config.dump());
  fs::remove(s.folder() / "model.safetensors");
  put_bytes(s.folder() / "pytorch_model.bin", "pickle");
  says(s.refusal(), "safe_serialization");
  try {
    import_hf(s.scratch.path() / "nowhere", s.scratch.path() / "out");
    FAIL("a folder that does not exist was imported");
  } catch (const Error& e) {
    says(e.what(), "is no folder");
  }
}

TEST_CASE("an import never writes over something", "[interop]") {
  Spoilt s("llama");
  const auto into = [&](const fs::path& output) {
    try {
      import_hf(s.folder(), output);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  const fs::path checkpoint = s.scratch.path() / "checkpoints/step-00000007";
  says(into(s.folder()), "is not empty");
  says(into(checkpoint), "would be taken for step 7");
  says(into(checkpoint / "inside"), "lies in the checkpoint");
  says(into(s.scratch.path() / "checkpoints/.staging/inside"), "put things aside");
  says(into(s.folder() / "config.json"), "is not a folder");
  CHECK(into(s.scratch.path() / "portable") == "");
  says(into(s.scratch.path() / "portable"), "is not empty");
  fs::create_directory(s.scratch.path() / "empty");
  CHECK(into(s.scratch.path() / "empty/") == "");
}

TEST_CASE("folders with random bytes changed are imported or refused, and never end the program", "[interop]") {
  std::mt19937 random(11);
  int64_t refused = 0, taken = 0;
  for (const auto& [name, shard] :
       {std::pair("gpt2", int64_t{5'000'000'000}), std::pair("llama_rope_yarn", int64_t{40'000})}) {
    const Spoilt s(name, shard);
    const std::string config = file_bytes(s.folder() / "config.json");
    std::vector<fs::path> files;
    for (const fs::path& file : files_below(s.folder()))
      if (file.extension() == ".safetensors" || file.filename() == "config.json" ||
          file.filename() == "model.safetensors.index.json")
        files.push_back(file);
    for (int trial = 0; trial < 150; ++trial) {
      const fs::path& file = files[random() % files.size()];
      const std::string whole = file_bytes(file);
      std::string changed = whole;
      const size_t head = std::min<size_t>(whole.size(), 3000);  // where the sizes and names are
      for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
        const size_t at = random() % head;
        const auto byte = static_cast<char>(random() % 2 != 0 ? random() % 256 : "0123456789{}[]\",:-e"[random() % 19]);
        if (random() % 4 == 0)
          changed.erase(at, 1 + random() % 8);
        else
          changed[at] = byte;
      }
      put_bytes(file, changed);
      try {
        import_hf(s.folder(), s.scratch.path() / "out");
        CHECK(inspect_folder(s.scratch.path() / "out").state == CheckpointState::usable);
        ++taken;
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::input) FAIL_CHECK(file << ": " << e.what());
        ++refused;
      }
      fs::remove_all(s.scratch.path() / "out");
      put_bytes(file, whole);
      if (names_below(s.scratch.path()) != std::vector<std::string>{"checkpoints", "hf"}) FAIL("something was left");
    }
  }
  CHECK(refused > 100);
  CHECK(taken > 0);
}
