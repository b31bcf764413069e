// tests/unit/interop/hf_record_test.cpp -- an export's record of itself: digests of its files, and its tokenizer.
#include <fstream>

#include "base/error.h"
#include "base/hash.h"
#include "gguf_reader.h"
#include "interop/byte_tokenizer.h"
#include "interop/export_record.h"
#include "interop/gguf_export.h"
#include "interop/hf_export.h"
#include "interop/hf_import.h"
#include "interop_support.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// A model with room for the byte tokenizer.
Golden with_bytes(int64_t vocab) {
  Golden g = golden("llama");
  g.model["vocab"] = vocab;
  for (const char* name : {"embedding.weight", "head.weight"})
    g.weights[name] = {{vocab, 32}, std::vector<float>(static_cast<size_t>(vocab) * 32, 0.5f)};
  return g;
}

// An export in several files in scratch/hf, to be spoiled.
struct Exported {
  explicit Exported(int64_t max_shard_bytes = 40'000) {
    HfExportOptions options;
    options.max_shard_bytes = max_shard_bytes;
    export_hf(save_weights(scratch.path() / "checkpoints", with_bytes(260)), folder(), options);
    record = read_json(folder() / "trainctl_export.json");
  }
  fs::path folder() const { return scratch.path() / "hf"; }
  // The message of the refusal; "" when the import went through. Nothing is left either way.
  std::string refusal() const {
    std::string text;
    try {
      const int64_t compared = import_hf(folder(), scratch.path() / "out").compared;
      CHECK(compared == std::ssize(record["digests"]) - 1);  // all but README.md
      fs::remove_all(scratch.path() / "out");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::input);
      text = e.what();
    }
    CHECK(names_below(scratch.path()) == std::vector<std::string>{"checkpoints", "hf"});
    return text;
  }
  ScratchFolder scratch;
  json record;
};

}  // namespace

TEST_CASE("an export records size and digest of every file it writes", "[interop]") {
  for (const int64_t shard : {40'000, 50'000'000}) {
    const Exported e(shard);
    std::set<std::string> recorded;
    for (const auto& [name, digest] : e.record["digests"].items()) {
      INFO(name);
      const std::string bytes = file_bytes(e.folder() / name);
      CHECK(digest["bytes"] == bytes.size());
      CHECK(digest["xxh128"] == xxh128_hex(bytes.data(), bytes.size()));
      recorded.insert(name);
    }
    recorded.insert("trainctl_export.json");
    const auto names = names_below(e.folder());
    CHECK(recorded == std::set<std::string>(names.begin(), names.end()));
    CHECK(e.refusal() == "");
  }
}

TEST_CASE("an export with a changed, cut or missing file is not imported, and the file is named", "[interop]") {
  const Exported e;
  for (const auto& [name, digest] : e.record["digests"].items()) {
    INFO(name);
    const fs::path path = e.folder() / name;
    const std::string good = file_bytes(path);
    const bool free = name == "README.md";  // nothing of it is imported
    for (const size_t at : {size_t{0}, good.size() / 2, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      put_bytes(path, bad);
      const std::string said = e.refusal();
      if (free) {
        CHECK(said == "");
        continue;
      }
      for (const std::string& word : {name, digest["xxh128"].get<std::string>(), xxh128_hex(bad.data(), bad.size()),
                                      std::string("remove trainctl_export.json")})
        CHECK_THAT(said, Catch::Contains(word));
    }
    put_bytes(path, good + "\n");
    CHECK_THAT(e.refusal(),
               free ? Catch::Contains("") : Catch::Contains(name + " has " + std::to_string(good.size() + 1)));
    fs::remove(path);
    CHECK_THAT(e.refusal(), free ? Catch::Contains("") : Catch::Contains(name + " is missing"));
    put_bytes(path, good);
  }
  CHECK(e.refusal() == "");
}

TEST_CASE("without the record, or with one that has no digests, a folder is imported as any other", "[interop]") {
  const Exported e(50'000'000);
  const fs::path weights = e.folder() / "model.safetensors";
  put_byte(weights, file_bytes(weights).size() - 1, '\0');
  put_byte(weights, file_bytes(weights).size() - 4, 'x');
  CHECK_THAT(e.refusal(), Catch::Contains("model.safetensors"));
  json older = e.record;
  older.erase("digests");
  put_bytes(e.folder() / "trainctl_export.json", older.dump());
  const HfImportReport old = import_hf(e.folder(), e.scratch.path() / "older");
  CHECK(old.compared == 0);
  REQUIRE_FALSE(old.notes.empty());
  CHECK_THAT(old.notes.front(), Catch::Contains("has no digests") && Catch::Contains("no file was compared"));
  fs::remove(e.folder() / "trainctl_export.json");
  CHECK(import_hf(e.folder(), e.scratch.path() / "none").compared == 0);
}

TEST_CASE("a record that cannot be read, or that names files elsewhere, is refused", "[interop]") {
  const Exported e;
  const fs::path path = e.folder() / "trainctl_export.json";
  put_bytes(path, e.record.dump().substr(1));
  CHECK_THAT(e.refusal(), Catch::Contains("no JSON object") && Catch::Contains("what to do"));
  for (const char* name : {"../checkpoints/x", "/etc/passwd", "a/b", "", ".."}) {
    json hostile = e.record;
    hostile["digests"][name] = {{"bytes", 1}, {"xxh128", "0"}};
    put_bytes(path, hostile.dump());
    CHECK_THAT(e.refusal(), Catch::Contains("does not say of"));
  }
  for (const json& digest : {json(1), json::object(), json{{"bytes", "1"}, {"xxh128", "0"}}}) {
    json odd = e.record;
    odd["digests"]["config.json"] = digest;
    put_bytes(path, odd.dump());
    CHECK_THAT(e.refusal(), Catch::Contains("\"config.json\""));
  }
}

TEST_CASE("the byte tokenizer comes through a Hugging Face folder: exports of the import have it as those of the run",
          "[interop]") {
  for (const int64_t vocab : {257, 260}) {
    ScratchFolder scratch;
    const fs::path at = scratch.path();
    const auto run = save_weights(at / "checkpoints", with_bytes(vocab));
    export_hf(run, at / "hf");
    CHECK(import_hf(at / "hf", at / "portable").tokenizer == "bytes");
    export_hf(at / "portable", at / "again");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      CHECK(file_bytes(at / "hf" / file) == file_bytes(at / "again" / file));
    CHECK(read_json(at / "again/trainctl_export.json")["files"] == read_json(at / "hf/trainctl_export.json")["files"]);
    CHECK(export_gguf(at / "portable", at / "import.gguf").notes.empty());
    export_gguf(run, at / "run.gguf");
    const GgufFile a = read_gguf(at / "run.gguf"), b = read_gguf(at / "import.gguf");
    for (const auto& [key, value] : a.keys) {
      INFO(key);
      if (key.starts_with("tokenizer.")) CHECK(b.keys.at(key) == value);
    }
  }
}

TEST_CASE("another tokenizer is not taken for the byte tokenizer, whatever it is called", "[interop]") {
  const std::string good = hf_byte_tokenizer(260).dump();
  CHECK(is_hf_byte_tokenizer(good, 260));
  CHECK(is_hf_byte_tokenizer(json::parse(good).dump(4), 260));  // another order of keys, other blanks
  CHECK_FALSE(is_hf_byte_tokenizer(good, 261));
  CHECK_FALSE(is_hf_byte_tokenizer(good, 97));
  CHECK_FALSE(is_hf_byte_tokenizer("", 260));
  CHECK_FALSE(is_hf_byte_tokenizer("[1", 260));
  const std::vector<std::function<void(json&)>> changes = {
      [](json& t) { std::swap(t["model"]["vocab"]["a"], t["model"]["vocab"]["b"]); },
      [](json& t) { t["model"]["merges"].push_back("a b"); },
      [](json& t) { t["pre_tokenizer"]["add_prefix_space"] = true; },
      [](json& t) {
        t["normalizer"] = {{"type", "NFC"}};
      },
      [](json& t) { t["added_tokens"][0]["id"] = 0; }};
  for (const auto& change : changes) {
    json other = json::parse(good);
    change(other);
    CHECK_FALSE(is_hf_byte_tokenizer(other.dump(), 260));
  }
}
