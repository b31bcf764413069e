// tests/unit/interop/hf_import_test.cpp -- Hugging Face folders into checkpoints, and back.
#include "interop/hf_import.h"

#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors.h"
#include "interop/half.h"
#include "interop/hf_export.h"
#include "interop_support.h"
#include "recipe/recipe.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Every weight of a checkpoint, widened to f32.
Weights weights_of(const fs::path& checkpoint) {
  CheckpointReader reader(checkpoint);
  Weights all;
  for (const TensorRecord& t : reader.manifest().tensors) {
    Values v;
    for (int d = 0; d < t.shape.rank(); ++d) v.shape.push_back(t.shape[d]);
    v.data.resize(static_cast<size_t>(t.shape.numel()));
    if (t.dtype == DType::f32) {
      reader.read(t, whole(t.shape), DType::f32, v.data.data());
    } else {
      std::vector<bf16> narrow(v.data.size());
      reader.read(t, whole(t.shape), DType::bf16, narrow.data());
      for (size_t i = 0; i < narrow.size(); ++i) v.data[i] = static_cast<float>(narrow[i]);
    }
    all[t.name] = v;
  }
  return all;
}

// Of an f16 pattern that is finite, by its definition.
double half_value(int h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

RawTensor as_half(const RawTensor& f32) {
  RawTensor half{"F16", f32.shape, std::string(f32.bytes.size() / 2, '\0')};
  for (size_t i = 0; i < half.bytes.size() / 2; ++i) {
    float x = 0;
    std::memcpy(&x, f32.bytes.data() + 4 * i, 4);
    const uint16_t h = half_of_f32(x);
    std::memcpy(half.bytes.data() + 2 * i, &h, 2);
  }
  return half;
}

RawTensor as_bf16(const RawTensor& f32) {
  RawTensor narrow{"BF16", f32.shape, std::string(f32.bytes.size() / 2, '\0')};
  for (size_t i = 0; i < narrow.bytes.size() / 2; ++i) {
    float x = 0;
    std::memcpy(&x, f32.bytes.data() + 4 * i, 4);
    const bf16 b(x);
    std::memcpy(narrow.bytes.data() + 2 * i, &b, 2);
  }
  return narrow;
}

}  // namespace

TEST_CASE("every golden model goes from its Hugging Face folder into a checkpoint and back, bit for bit", "[interop]") {
  for (const std::string& name : kGoldenCases)
    for (const int64_t shard : {int64_t{5'000'000'000}, int64_t{12'500}}) {
      INFO(name << ", at most " << shard << " bytes a file");
      ScratchFolder scratch;
      const Golden g = golden(name);
      HfExportOptions options;
      options.max_shard_bytes = shard;
      export_hf(save_weights(scratch.path() / "checkpoints", g), scratch.path() / "first", options);
      const HfImportReport report = import_hf(scratch.path() / "first", scratch.path() / "portable");
      CHECK(report.tensors == static_cast<int64_t>(read_export(scratch.path() / "first").size()));
      CHECK(weights_of(scratch.path() / "portable") == g.weights);
      export_hf(scratch.path() / "portable", scratch.path() / "second", options);
      for (const auto& [tensor, what] : read_export(scratch.path() / "first")) CHECK(what.dtype == "F32");
      for (const std::string& file : names_below(scratch.path() / "first")) {
        if (file == "README.md" || file == "trainctl_export.json") continue;
        INFO(file);
        CHECK(file_bytes(scratch.path() / "first" / file) == file_bytes(scratch.path() / "second" / file));
      }
    }
}

TEST_CASE("an imported checkpoint is whole, portable, says what it lacks, and brings the recipe's model section",
          "[interop]") {
  ScratchFolder scratch;
  put_golden_folder(scratch.path(), "qwen3", scratch.path() / "hf");
  put_bytes(scratch.path() / "hf/tokenizer.json", R"({"version":"1.0"})");
  const HfImportReport report = import_hf(scratch.path() / "hf", scratch.path() / "portable");
  Manifest m;
  const CheckpointInfo info = inspect_folder(scratch.path() / "portable", &m);
  CHECK(info.state == CheckpointState::usable);
  CHECK(info.kind == "portable");
  CHECK(info.manifest_sha256 == report.manifest_sha256);
  REQUIRE(m.completeness.size() == 12);
  for (const StateClass& c : m.completeness) {
    INFO(c.name);
    const bool kept = c.name == "weights" || c.name == "sharding" || c.name == "versions";
    CHECK(c.state == (kept ? "present" : c.name == "low_precision_scaling" ? "derived" : "absent"));
  }
  VerifyReport verified = verify_checkpoint(scratch.path() / "portable", true);
  CHECK(verified.whole());
  CHECK(verified.notes.empty());

  const json section = read_json(scratch.path() / "portable/meta/recipe-model.json");
  CHECK(section == json::parse(report.recipe_model));
  json recipe = provenance_of(golden("qwen3").model)["recipe"];
  recipe["model"] = section["model"];
  const LoadedRecipe loaded = load_recipe_text(recipe.dump(), "a recipe with the section");
  CHECK(loaded.recipe.model.norm_eps == 1e-3);
  CHECK(loaded.recipe.model.head_dim == 16);

  export_hf(scratch.path() / "portable", scratch.path() / "again");  // what came with the weights goes with them
  CHECK(file_bytes(scratch.path() / "again/tokenizer.json") == R"({"version":"1.0"})");

  put_bytes(scratch.path() / "portable/meta/tokenizer.json", R"({"version":"2.0"})");
  verified = verify_checkpoint(scratch.path() / "portable", false);
  REQUIRE(verified.faults.size() == 1);
  CHECK(verified.faults[0].find("tokenizer.json") != std::string::npos);
  CHECK_THROWS_AS(export_hf(scratch.path() / "portable", scratch.path() / "third"), Error);
}

TEST_CASE("a run continues from no portable checkpoint", "[interop]") {
  ScratchFolder scratch;
  put_golden_folder(scratch.path(), "llama", scratch.path() / "hf");
  import_hf(scratch.path() / "hf", scratch.path() / "portable");
  RankState local({{"embedding.weight", "weight", DType::f32, {97, 32}, 0, ""}}, 0, 1);
  Checkpointer checkpointer =
      build_checkpointer(CheckpointConfig{}, options_for(scratch.path() / "own"), local.arena(), local.catalog);
  try {
    checkpointer.restore(local.catalog, (scratch.path() / "portable").string());
    FAIL("a portable checkpoint was resumed");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("its kind is portable") != std::string::npos);
  }
}

TEST_CASE("every f16 is its value in f32, and rounding to f16 is to nearest even", "[interop]") {
  for (int h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<uint16_t>(h);
    const float wide = f32_of_half(half);
    const bool finite = (h >> 10 & 31) != 31;
    if (finite) {
      if (static_cast<double>(wide) != half_value(h) || std::signbit(wide) != ((h & 0x8000) != 0)) FAIL(h);
    } else if ((h & 1023) == 0 ? !std::isinf(wide) : !std::isnan(wide)) {
      FAIL(h);
    }
    if ((finite || (h & 1023) == 0) && half_of_f32(wide) != half) FAIL(h);
    // The next f16 away from zero, and the middle between them, which goes to the even one.
    const int next = h + 1;
    if (!finite || (next >> 10 & 31) == 31) continue;
    const double middle = (half_value(h) + half_value(next)) / 2;  // an f32: one bit more than an f16
    const auto at = static_cast<float>(middle);
    if (half_of_f32(at) != (h % 2 == 0 ? h : next)) FAIL(h);
    if (half_of_f32(std::nextafter(at, 0.0f)) != h) FAIL(h);
    if (half_of_f32(std::nextafter(at, 2 * at)) != next) FAIL(h);
  }
  CHECK(half_of_f32(65519.99f) == 0x7bff);
  CHECK(half_of_f32(65520.0f) == 0x7c00);
  CHECK(half_of_f32(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(std::isnan(f32_of_half(half_of_f32(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("f16 becomes f32 exactly, bf16 stays bf16, and a folder may hold all three", "[interop]") {
  for (const char* name : {"gpt2", "llama"}) {  // with and without transposed matrices
    INFO(name);
    ScratchFolder scratch;
    put_golden_folder(scratch.path(), name, scratch.path() / "hf");
    RawTensors tensors = raw_tensors(scratch.path() / "hf/model.safetensors");
    std::map<std::string, std::string> dtypes;
    size_t i = 0;
    for (auto& [tensor, raw] : tensors) {
      if (i % 3 == 1) raw = as_half(raw);
      if (i % 3 == 2) raw = as_bf16(raw);
      dtypes[tensor] = raw.dtype;
      ++i;
    }
    put_hf_folder(scratch.path() / "mixed", read_json(scratch.path() / "hf/config.json"), tensors);
    import_hf(scratch.path() / "mixed", scratch.path() / "portable");
    export_hf(scratch.path() / "portable", scratch.path() / "wide");
    const auto wide = raw_tensors(scratch.path() / "wide/model.safetensors");
    for (const auto& [tensor, raw] : tensors) {
      INFO(tensor << " from " << raw.dtype);
      const size_t size = raw.dtype == "F32" ? 4 : 2, count = raw.bytes.size() / size;
      REQUIRE(wide.at(tensor).bytes.size() == 4 * count);
      size_t differ = 0;
      for (size_t k = 0; k < count; ++k) {
        float value = 0, expected = 0;
        std::memcpy(&value, wide.at(tensor).bytes.data() + 4 * k, 4);
        uint16_t narrow = 0;
        if (size == 2) std::memcpy(&narrow, raw.bytes.data() + 2 * k, 2);
        if (raw.dtype == "F32") std::memcpy(&expected, raw.bytes.data() + 4 * k, 4);
        if (raw.dtype == "F16") expected = static_cast<float>(half_value(narrow));
        if (raw.dtype == "BF16") expected = std::bit_cast<float>(static_cast<uint32_t>(narrow) << 16);
        differ += std::bit_cast<uint32_t>(value) != std::bit_cast<uint32_t>(expected);
      }
      CHECK(differ == 0);
    }
    HfExportOptions to_bf16;
    to_bf16.dtype = DType::bf16;
    export_hf(scratch.path() / "portable", scratch.path() / "narrow", to_bf16);
    const auto narrow = raw_tensors(scratch.path() / "narrow/model.safetensors");
    for (const auto& [tensor, raw] : tensors)
      if (raw.dtype == "BF16") CHECK(narrow.at(tensor).bytes == raw.bytes);
  }
}

TEST_CASE("GPT-2 as the hub has it: no prefix, stored masks, a stored copy of the tied head", "[interop]") {
  ScratchFolder scratch;
  put_golden_folder(scratch.path(), "gpt2", scratch.path() / "hf");
  RawTensors hub;
  for (const auto& [tensor, raw] : raw_tensors(scratch.path() / "hf/model.safetensors"))
    hub[tensor.substr(std::string("transformer.").size())] = raw;
  hub["h.0.attn.bias"] = raw_f32({1, 1, 2, 2}, {1, 0, 1, 1});
  hub["h.2.attn.masked_bias"] = raw_f32({}, {-1e4f});
  hub["lm_head.weight"] = hub.at("wte.weight");
  put_hf_folder(scratch.path() / "hub", read_json(scratch.path() / "hf/config.json"), hub);
  const HfImportReport report = import_hf(scratch.path() / "hub", scratch.path() / "portable");
  CHECK(weights_of(scratch.path() / "portable") == golden("gpt2").weights);
  CHECK(report.notes.size() == 2);
}

TEST_CASE("an import killed at any tensor leaves no checkpoint, and the next one cleans up", "[interop]") {
  ScratchFolder scratch;
  put_golden_folder(scratch.path(), "llama_tied", scratch.path() / "hf");
  const auto before = names_below(scratch.path());
  int64_t calls = 0;
  HfImportOptions counting;
  counting.progress = [&calls](int64_t, int64_t) { ++calls; };
  import_hf(scratch.path() / "hf", scratch.path() / "counted", counting);
  fs::remove_all(scratch.path() / "counted");
  for (int64_t kill_at = 1; kill_at <= calls; ++kill_at) {
    HfImportOptions options;
    options.progress = [kill_at, n = int64_t{0}](int64_t, int64_t) mutable {
      if (++n == kill_at) ::_exit(9);
    };
    in_child([&] { import_hf(scratch.path() / "hf", scratch.path() / "portable", options); });
    if (fs::exists(scratch.path() / "portable")) {  // committed: only the reading back was cut short
      CHECK(inspect_folder(scratch.path() / "portable").state == CheckpointState::usable);
      fs::remove_all(scratch.path() / "portable");
    }
  }
  import_hf(scratch.path() / "hf", scratch.path() / "portable");
  fs::remove_all(scratch.path() / "portable");
  CHECK(names_below(scratch.path()) == before);
}

TEST_CASE("what was renamed and never committed is replaced by the next import", "[interop]") {
  ScratchFolder scratch;
  put_golden_folder(scratch.path(), "llama", scratch.path() / "hf");
  import_hf(scratch.path() / "hf", scratch.path() / "portable");
  fs::remove(scratch.path() / "portable/COMMITTED");
  CHECK(inspect_folder(scratch.path() / "portable").state == CheckpointState::incomplete);
  import_hf(scratch.path() / "hf", scratch.path() / "portable");
  CHECK(weights_of(scratch.path() / "portable") == golden("llama").weights);
}

TEST_CASE("export and import need memory for the largest tensor and little more", "[interop]") {
  ScratchFolder scratch(/*on_disk=*/true);
  const json config = {{"model_type", "llama"},        {"hidden_size", 1024},       {"intermediate_size", 4096},
                       {"num_hidden_layers", 3},       {"num_attention_heads", 16}, {"vocab_size", 16384},
                       {"max_position_embeddings", 64}};
  constexpr int64_t kLargest = 16384 * 1024 * 4, kSlack = 64 << 20;
  fs::create_directories(scratch.path() / "hf");
  put_bytes(scratch.path() / "hf/config.json", config.dump());
  const auto tensor = [](std::string name, std::vector<int64_t> shape) {
    return SafetensorsTensor{std::move(name), "F32", std::move(shape), 0, 0};
  };
  std::vector<SafetensorsTensor> tensors = {tensor("model.embed_tokens.weight", {16384, 1024}),
                                            tensor("lm_head.weight", {16384, 1024}),
                                            tensor("model.norm.weight", {1024})};
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string prefix = "model.layers." + layer + ".";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back(tensor(prefix + norm + ".weight", {1024}));
    for (const char* part : {"q", "k", "v", "o"})
      tensors.push_back(tensor(prefix + "self_attn." + part + "_proj.weight", {1024, 1024}));
    tensors.push_back(tensor(prefix + "mlp.gate_proj.weight", {4096, 1024}));
    tensors.push_back(tensor(prefix + "mlp.up_proj.weight", {4096, 1024}));
    tensors.push_back(tensor(prefix + "mlp.down_proj.weight", {1024, 4096}));
  }
  {
    SafetensorsWriter writer(scratch.path() / "hf/model.safetensors", tensors, {{"format", "pt"}});
    std::vector<float> row(1024, 0.25f);
    for (const SafetensorsTensor& t : tensors) {
      int64_t elements = 1;
      for (const int64_t d : t.shape) elements *= d;
      for (int64_t at = 0; at < elements; at += 1024) writer.append(row.data(), 4096);
    }
    writer.finish();
  }
  REQUIRE(fs::file_size(scratch.path() / "hf/model.safetensors") > 300'000'000);
  CHECK(growth_of_peak([&] { import_hf(scratch.path() / "hf", scratch.path() / "portable"); }) < kLargest + kSlack);
  CHECK(growth_of_peak([&] { export_hf(scratch.path() / "portable", scratch.path() / "out"); }) < kLargest + kSlack);
}
