// tests/unit/checkpoint/other_versions_test.cpp -- records that an older or a newer program wrote.
#include <array>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "checkpoint/markers.h"
#include "checkpoint/record_text.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The same record as a program of that version would have written it; a newer one adds a member.
std::string of_version(const std::string& text, int64_t major, int64_t minor) {
  json value = json::parse(text);
  value.erase("self_xxh128");
  value["schema"]["major"] = major;
  value["schema"]["minor"] = minor;
  if (minor > kSchemaMinor) value["an_addition"] = {{"of", minor}};
  return with_self_digest(std::move(value));
}

void rewrite(const fs::path& file, int64_t major, int64_t minor) {
  put_bytes(file, of_version(file_bytes(file), major, minor));
}

}  // namespace

TEST_CASE("markers of another minor version say what they said, and keep their digest", "[checkpoint]") {
  for (const int64_t minor : {int64_t{0}, int64_t{1}, kSchemaMinor + 1}) {
    CAPTURE(minor);
    ScratchFolder folder;
    for (const int64_t step : {1, 2}) save_once(folder.path(), 2, step, 1);
    const fs::path one = folder.path() / "step-00000001", two = folder.path() / "step-00000002";
    pin_checkpoint(one, "a reason");
    mark_verified(two, inspect_folder(two).manifest_sha256, "by hand");
    mark_drilled(two, inspect_folder(two).manifest_sha256, "by hand");
    mark_unusable(one, "no good", std::string(kMarkedByHand), "");
    for (const fs::path& file : files_below(folder.path()))
      for (const std::string_view name : {kCommittedName, kPinnedName, kVerifiedName, kDrilledName, kUnusableName})
        if (file.filename() == name) rewrite(file, kSchemaMajor, minor);
    rewrite(folder.path() / kLatestName, kSchemaMajor, minor);
    const CheckpointInfo first = inspect_folder(one), second = inspect_folder(two);
    CAPTURE(first.reason, second.reason);
    CHECK(first.state == CheckpointState::unusable);
    CHECK(first.reason == "marked unusable by " + std::string(kMarkedByHand) + ": no good");
    CHECK_FALSE(first.proven_damaged);
    CHECK(first.pin_reason == "a reason");
    CHECK(second.state == CheckpointState::usable);
    CHECK(second.verified);
    CHECK(second.drilled);
    CHECK(second.notes.empty());
    CHECK(latest_from_text(file_bytes(folder.path() / kLatestName), "LATEST").step == 2);
    CHECK_THROWS_WITH(latest_from_text(file_bytes(folder.path() / kLatestName).replace(2, 1, "S"), "LATEST"),
                      Catch::Contains("LATEST"));
    save_once(folder.path(), 2, 3, 1);
    CHECK(prune_checkpoints(folder.path(), RetentionPolicy(3), false).empty());
  }
}

TEST_CASE("a member that was added or changed without the digest is damage, whatever the version", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const fs::path file = folder.path() / "step-00000001" / kCommittedName;
  const std::string good = file_bytes(file), newer = of_version(good, kSchemaMajor, kSchemaMinor + 1);
  CHECK(committed_from_text(newer, "COMMITTED").step == 1);
  json value = json::parse(newer);
  value["an_addition"]["of"] = 99;
  for (const std::string& bad :
       {value.dump() + "\n", newer + " ", " " + newer, json::parse(newer).dump(1) + "\n", json::parse(newer).dump()}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH(committed_from_text(bad, "COMMITTED"), Catch::Contains("damaged"));
  }
}

TEST_CASE("receipts of another minor version are read", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  const std::string text = file_bytes(folder.path() / "step-00000001" / receipt_path(0));
  const Receipt now = receipt_from_text(text, "receipt");
  const std::string_view tensors = tensors_of_receipt(text);
  REQUIRE_FALSE(tensors.empty());
  json value = json::parse(text);
  value.erase("tensors");
  value.erase("self_xxh128");
  value["schema"]["minor"] = kSchemaMinor + 1;
  value["addition"] = 1;
  const std::string newer = with_receipt_digest(value, tensors) + std::string(tensors) + std::string(kReceiptEnd);
  const Receipt read = receipt_from_text(newer, "receipt");
  CHECK(to_text(read) == to_text(now));
  std::string changed = newer;
  changed[changed.find("\"addition\":1") + 11] = '2';
  CHECK_THROWS_WITH(receipt_from_text(changed, "receipt"), Catch::Contains("damaged"));
}

TEST_CASE("a checkpoint of another major version is named as that, and left alone by prune", "[checkpoint]") {
  for (const std::string_view record : {kCommittedName, kManifestName}) {
    CAPTURE(record);
    ScratchFolder folder;
    for (const int64_t step : {1, 2}) save_once(folder.path(), 1, step, 1);
    const fs::path one = folder.path() / "step-00000001";
    if (record == kCommittedName) {
      rewrite(one / kCommittedName, kSchemaMajor + 1, 0);
    } else {
      json manifest = json::parse(file_bytes(one / kManifestName));
      manifest["schema"]["major"] = kSchemaMajor + 1;
      const std::string text = manifest.dump() + "\n";
      Committed committed = committed_from_text(file_bytes(one / kCommittedName), "COMMITTED");
      committed.manifest_bytes = std::ssize(text);
      committed.manifest_sha256 = sha256_hex(std::array<std::string_view, 1>{text});
      put_bytes(one / kManifestName, text);
      put_bytes(one / kCommittedName, to_text(committed));
    }
    const CheckpointInfo info = inspect_folder(one);
    CHECK(info.state == CheckpointState::damaged);
    CHECK(info.other_version);
    CHECK_THAT(info.reason, Catch::Contains("is of version 2: this program reads version 1; use a newer trainctl"));
    if (record == kManifestName) continue;
    CHECK(prune_checkpoints(folder.path(), RetentionPolicy(1), false).empty());
    CHECK(fs::exists(one / kManifestName));
  }
}

}  // namespace trainctl::testing
