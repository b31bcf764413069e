// tests/unit/checkpoint/hostile_test.cpp -- manifests made to break a reader are refused, with valid digests around
// them.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

using nlohmann::json;

// Writes `manifest` into the checkpoint and binds it with a correct COMMITTED. Returns "" when it is accepted.
std::string refusal(const std::filesystem::path& folder, const std::string& manifest) {
  Committed committed = committed_from_text(file_bytes(folder / "COMMITTED"), "COMMITTED");
  committed.manifest_sha256 = sha256_hex(manifest);
  committed.manifest_bytes = static_cast<int64_t>(manifest.size());
  put_bytes(folder / "manifest.json", manifest);
  put_bytes(folder / "COMMITTED", to_text(committed));
  try {
    CheckpointReader reader(folder);
    std::vector<char> buffer(1 << 16);
    for (const TensorRecord& t : reader.manifest().tensors)
      if (t.shape.numel() * size_of(t.dtype) <= static_cast<int64_t>(buffer.size()))
        reader.read(t, whole(t.shape), t.dtype, buffer.data());
    return "";
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::checkpoint);
    return e.what();
  }
}

}  // namespace

TEST_CASE("a manifest with a valid digest and hostile content is refused by rule", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  const std::filesystem::path checkpoint = folder.path() / "step-00000001";
  const json good = json::parse(file_bytes(checkpoint / "manifest.json"));
  REQUIRE(refusal(checkpoint, good.dump() + "\n") == "");
  size_t stored = 0;  // a matrix in two parts, followed in its file by another tensor of the same name
  while (good["tensors"][stored]["name"] != "embedding.weight" || good["tensors"][stored]["role"] != "exp_avg")
    ++stored;
  REQUIRE(good["tensors"][stored]["chunks"].size() == 2);
  const auto refused = [&](const std::string& needle, const std::function<void(json&)>& spoil) {
    json bad = good;
    spoil(bad);
    const std::string text = refusal(checkpoint, bad.dump() + "\n");
    CAPTURE(needle, text);
    CHECK(text.find(needle) != std::string::npos);
  };
  const int64_t huge = int64_t{1} << 62;
  const auto chunk = [stored](json& m, size_t i) -> json& { return m["tensors"][stored]["chunks"][i]; };
  for (const char* path : {"../secret", "/etc/passwd", "data/../../x", "data//x", "", "data/./x", "data\\x", "a\nb"}) {
    refused("no plain relative path", [&](json& m) { m["files"][0]["path"] = path; });
    refused("no plain relative path", [&](json& m) { chunk(m, 0)["file"] = path; });
    refused("no plain relative path", [&](json& m) { m["receipts"][0]["path"] = path; });
  }
  refused("is not listed", [&](json& m) { chunk(m, 0)["file"] = "data/other.safetensors"; });
  refused("listed twice", [&](json& m) { m["files"].push_back(m["files"][0]); });
  refused("listed twice", [&](json& m) { m["tensors"].push_back(m["tensors"][0]); });
  refused("listed twice", [&](json& m) { m["receipts"].push_back(m["receipts"][0]); });
  refused("overlap", [&](json& m) { m["tensors"][stored]["chunks"].push_back(chunk(m, 0)); });
  refused("elements of", [&](json& m) { m["tensors"][stored]["chunks"].erase(1); });
  refused("64 bits", [&](json& m) { m["tensors"][stored]["shape"] = {huge, 4}; });
  refused("leaves the shape", [&](json& m) { chunk(m, 0)["offset"] = {INT64_MAX, 0}; });
  refused("at most 4", [&](json& m) { m["tensors"][stored]["shape"] = {1, 1, 1, 1, 1}; });
  refused(">= 0", [&](json& m) { chunk(m, 0)["extent"] = {-1, 6}; });
  refused(">= 0", [&](json& m) { m["tensors"][stored]["shape"][0] = 1.5; });
  refused("does not agree", [&](json& m) { chunk(m, 0)["byte_length"] = 4; });
  refused("outside", [&](json& m) { chunk(m, 0)["byte_length"] = -4; });
  refused("leave the data", [&](json& m) { chunk(m, 0)["byte_offset"] = INT64_MAX - 7; });
  refused("leave the data", [&](json& m) { chunk(m, 0)["byte_offset"] = 8; });
  refused("not aligned", [&](json& m) { chunk(m, 0)["byte_offset"] = chunk(m, 0)["byte_offset"].get<int64_t>() + 1; });
  refused("share bytes", [&](json& m) {
    const int64_t other = m["tensors"][stored + 1]["chunks"][0]["byte_offset"];
    m["tensors"][stored]["chunks"][0]["byte_offset"] = other;
  });
  refused("block", [&](json& m) { m["files"][0]["block"] = 1; });
  refused("blocks", [&](json& m) { m["files"][0]["bytes"] = huge; });
  refused("1 block", [&](json& m) { m["files"][0]["block_xxh128"] = json::array(); });
  refused("expected", [&](json& m) {
    for (json& file : m["files"])
      if (file["path"] == "data/optim-r00000.safetensors") file["bytes"] = file["bytes"].get<int64_t>() + 1;
  });
  refused("hex digits", [&](json& m) { m["files"][0]["block_xxh128"][0] = "zz"; });
  refused("block digests", [&](json& m) { m["files"][0]["block_xxh128"][0] = std::string(32, '0'); });
  refused("is no digest", [&](json& m) { m["attempt"] = "short"; });
  refused("newer trainctl", [&](json& m) { m["schema"]["major"] = 2; });
  refused("needed", [&](json& m) { m["schema"]["name"] = "something-else"; });
  refused("known: training", [&](json& m) { m["kind"] = "cooked"; });
  refused("is missing", [&](json& m) { m.erase("tensors"); });
  refused("is not known", [&](json& m) { m["tensors"][stored]["dtype"] = "f8"; });
  refused("\"rng\" is absent", [&](json& m) { m["completeness"]["rng"]["state"] = "absent"; });
  refused("\"rng\" is not in the table", [&](json& m) { m["completeness"].erase("rng"); });
  refused("\"versions.code\" is absent",
          [&](json& m) { m["completeness"]["versions"]["parts"]["code"]["state"] = "absent"; });
  refused("known: present, absent, derived", [&](json& m) { m["completeness"]["rng"]["state"] = "perhaps"; });
  refused("which is not listed", [&](json& m) { m["meta"].erase(0); });
  refused("listed twice", [&](json& m) { m["meta"].push_back(m["meta"][0]); });
  refused("no plain relative path", [&](json& m) { m["meta"][0]["path"] = "meta/../../x"; });
  refused("outside meta/", [&](json& m) { m["meta"][0]["path"] = "data/x"; });
  refused("expected", [&](json& m) { m["meta"][0]["bytes"] = huge; });
  refused("digest", [&](json& m) { m["meta"][0]["xxh128"] = std::string(32, '0'); });
  refused("points at a tensor", [&](json& m) {
    m["tensors"][stored]["chunks"] = json::array();
    m["tensors"][stored]["alias_of"] = "nobody";
  });
  refused("alias of an alias", [&](json& m) {
    m["tensors"][stored]["chunks"] = json::array();
    m["tensors"][stored]["alias_of"] = m["tensors"][stored]["name"];
  });
  refused("chunks of its own", [&](json& m) { m["tensors"][stored]["alias_of"] = m["tensors"][stored]["name"]; });
  refused("an object is needed", [&](json& m) { m["data"]["state"] = "here"; });
  refused("disagree", [&](json& m) { m["step"] = 2; });
  refused("no number", [&](json& m) { m["scalars"]["last_loss"] = "12 apples"; });
  refused("is missing", [&](json& m) {
    m["files"][0]["path"] = "data/absent.safetensors";
    m["tensors"] = json::array();
  });

  json older = good;
  older["schema"]["minor"] = 1;
  older["data"].erase("state");
  CHECK(refusal(checkpoint, older.dump() + "\n") == "");

  const std::string text = good.dump();
  CHECK(refusal(checkpoint, text.substr(0, text.size() / 2)).find("manifest.json:1:") != std::string::npos);
  CHECK(refusal(checkpoint, "{\"step\":1," + text.substr(1)).find("duplicate key") != std::string::npos);
  CHECK(refusal(checkpoint, std::string(100000, '[')).find("nested deeper") != std::string::npos);
  CHECK(refusal(checkpoint, good.dump() + "\n") == "");
}

TEST_CASE("random edits of a manifest are refused or harmless, and never crash the reader", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const std::filesystem::path checkpoint = folder.path() / "step-00000001";
  const std::string good = file_bytes(checkpoint / "manifest.json");
  const std::string alphabet = "0123456789-[]{}\",:.eatn\\";
  for (uint64_t trial = 0; trial < 1500; ++trial) {
    std::string bad = good;
    const auto random = philox(77, 0, trial);
    for (uint32_t edit = 0; edit <= random[0] % 3; ++edit) {
      const auto where = philox(78, trial, edit);
      const size_t at = where[0] % bad.size();
      const char c = alphabet[where[1] % alphabet.size()];
      if (where[2] % 3 == 0)
        bad.insert(at, 1, c);
      else if (where[2] % 3 == 1)
        bad.erase(at, 1 + where[3] % 20);
      else
        bad[at] = c;
    }
    refusal(checkpoint, bad);
  }
  CHECK(refusal(checkpoint, good) == "");
}

}  // namespace trainctl::testing
