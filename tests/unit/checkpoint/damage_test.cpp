// tests/unit/checkpoint/damage_test.cpp -- no damaged byte is ever used: flipped, cut, grown, deleted, swapped, mixed.
#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/media_reader.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::vector<GlobalTensor> tiny_model() {
  return {{"w", "weight", DType::f32, {2, 3}, -1, ""}, {"w", "exp_avg", DType::f32, {2, 3}, -1, ""}};
}

void save_tiny(const fs::path& folder, int64_t step) {
  RankState state(tiny_model(), 0, 1);
  state.fill(static_cast<uint32_t>(step));
  Checkpointer c = build_checkpointer({}, options_for(folder), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(step), SaveReason::interval);
  REQUIRE(c.wait().front().ok);
}

// True when the checkpoint is refused before, or while, its tensors are read.
bool is_refused(const fs::path& folder) {
  try {
    CheckpointReader reader(folder);
    char buffer[64];
    for (const TensorRecord& t : reader.manifest().tensors) reader.read(t, whole(t.shape), t.dtype, buffer);
    return false;
  } catch (const Error& e) {
    return e.kind() == ErrorKind::checkpoint;
  }
}

}  // namespace

TEST_CASE("every single flipped byte of a checkpoint is detected before its state is used", "[checkpoint]") {
  ScratchFolder folder;
  save_tiny(folder.path(), 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  REQUIRE_FALSE(is_refused(checkpoint));
  REQUIRE(verify_checkpoint(checkpoint, true).whole());
  int64_t positions = 0, missed = 0, missed_by_verify = 0;
  for (const fs::path& file : files_below(checkpoint)) {
    const std::string good = file_bytes(file);
    for (size_t i = 0; i < good.size(); ++i) {
      // In the padding of a header one position in 31 is enough.
      if (file.extension() == ".safetensors" && good[i] == ' ' && i % 31 != 0) continue;
      for (const int mask : {0xFF, 1 << (i % 8)}) {
        put_byte(file, i, static_cast<char>(good[i] ^ static_cast<char>(mask)));
        ++positions;
        if (!is_refused(checkpoint)) {
          ++missed;
          UNSCOPED_INFO(fmt::format("{} byte {} mask {}", file.filename().string(), i, mask));
        }
        if (mask == 0xFF && i % 4 == 0) missed_by_verify += verify_checkpoint(checkpoint, true).whole();
      }
      put_byte(file, i, good[i]);
    }
  }
  CHECK(positions > 5000);
  CHECK(missed == 0);
  CHECK(missed_by_verify == 0);
  CHECK_FALSE(is_refused(checkpoint));
}

TEST_CASE("a file that is cut, grown, deleted, swapped or replaced by a link is named", "[checkpoint]") {
  ScratchFolder folder;
  save_tiny(folder.path(), 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  for (const fs::path& file : files_below(checkpoint)) {
    const std::string good = file_bytes(file), name = file.filename().string();
    CAPTURE(name);
    const auto refused_by_name = [&] {
      const VerifyReport report = verify_checkpoint(checkpoint, true);
      CHECK_FALSE(report.whole());
      CHECK(is_refused(checkpoint));
      std::string all;
      for (const std::string& fault : report.faults) all += fault + "\n";
      CAPTURE(all);
      // Without COMMITTED there is nothing to name: the save never happened.
      CHECK((all.find(name) != std::string::npos || all.find("never committed") != std::string::npos));
    };
    put_bytes(file, good.substr(0, good.size() - 1));
    refused_by_name();
    put_bytes(file, good.substr(0, good.size() / 2));
    refused_by_name();
    put_bytes(file, "");
    refused_by_name();
    put_bytes(file, good + " ");
    refused_by_name();
    fs::remove(file);
    refused_by_name();
    const fs::path elsewhere = folder.path() / "elsewhere";
    put_bytes(elsewhere, good);
    fs::create_symlink(elsewhere, file);
    refused_by_name();
    fs::remove(file);
    fs::create_directory(file);
    refused_by_name();
    fs::remove(file);
    put_bytes(file, good);
    REQUIRE_FALSE(is_refused(checkpoint));
  }
  const fs::path model = checkpoint / "data/model-r00000.safetensors",
                 optim = checkpoint / "data/optim-r00000.safetensors";
  fs::rename(model, folder.path() / "aside");
  fs::rename(optim, model);
  fs::rename(folder.path() / "aside", optim);
  CHECK(is_refused(checkpoint));
  fs::rename(checkpoint / "data", checkpoint / "elsewhere");
  fs::create_directory_symlink(checkpoint / "elsewhere", checkpoint / "data");
  CHECK(is_refused(checkpoint));
}

TEST_CASE("files of two attempts of the same step do not mix", "[checkpoint]") {
  ScratchFolder a, b;
  save_tiny(a.path(), 1);
  save_tiny(b.path(), 1);
  const fs::path left = a.path() / "step-00000001", right = b.path() / "step-00000001";
  for (const fs::path& file : files_below(left)) {
    const fs::path other = right / file.lexically_relative(left);
    const std::string good = file_bytes(file);
    if (file_bytes(other) == good) continue;  // of meta/: the same words
    put_bytes(file, file_bytes(other));
    CAPTURE(file.string());
    CHECK(is_refused(left));
    put_bytes(file, good);
  }
  CHECK_FALSE(is_refused(left));
}

TEST_CASE("a damaged newest checkpoint is marked and the one before it is taken", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  save_once(folder.path(), 2, 2, 2);
  const fs::path shard = folder.path() / "step-00000002/data/optim-r00001.safetensors";
  std::string bytes = file_bytes(shard);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 0x10);
  put_bytes(shard, bytes);
  for (int again = 0; again < 2; ++again) {
    ThreadWorld ranks(2);
    std::vector<RestoreResult> results(2);
    on_ranks(2, [&](int64_t r) {
      RankState state(small_model(), r, 2);
      Checkpointer c =
          build_checkpointer({}, options_for(folder.path(), ranks.agreement(r)), state.arena(), state.catalog);
      results[static_cast<size_t>(r)] = c.restore(state.catalog);
      if (!state.difference(1).empty()) throw std::runtime_error(state.difference(1));
    });
    for (const RestoreResult& result : results) {
      CHECK(result.step == 1);
      REQUIRE(result.rejected.size() == 1);
      CHECK(result.rejected[0].find("step-00000002") != std::string::npos);
    }
  }
  const CheckpointInfo info = inspect_folder(folder.path() / "step-00000002");
  CHECK(info.state == CheckpointState::unusable);
  CHECK(info.reason.find("optim-r00001") != std::string::npos);
}

TEST_CASE("UNUSABLE beats every other marker, in any form, until it is taken away", "[checkpoint]") {
  ScratchFolder folder;
  save_tiny(folder.path(), 1);
  const fs::path checkpoint = folder.path() / "step-00000001";
  mark_unusable(checkpoint, "loss spike", "a person", "");
  CHECK(inspect_folder(checkpoint).state == CheckpointState::unusable);
  CHECK(inspect_folder(checkpoint).reason.find("loss spike") != std::string::npos);
  RankState state(tiny_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  CHECK_THROWS_AS(c.restore(state.catalog), Error);  // there is one, and it may not be used: no silent fresh start
  CHECK_THROWS_AS(c.restore(state.catalog, checkpoint.string()), Error);
  put_bytes(checkpoint / "UNUSABLE", "half a li");
  CHECK(inspect_folder(checkpoint).state == CheckpointState::unusable);
  CHECK(mark_usable(checkpoint).changed);
  CHECK_FALSE(mark_usable(checkpoint).changed);
  CHECK(c.restore(state.catalog).step == 1);
}

TEST_CASE("a copied checkpoint is usable when whole, under any name, and refused when not", "[checkpoint]") {
  ScratchFolder folder, other;
  save_tiny(folder.path(), 1);
  fs::copy(folder.path() / "step-00000001", other.path() / "the best one", fs::copy_options::recursive);
  CHECK_FALSE(is_refused(other.path() / "the best one"));
  fs::rename(other.path() / "the best one", other.path() / "step-00000009");
  CHECK(is_refused(other.path() / "step-00000009"));  // a step's name must not lie
}

TEST_CASE("a torn or lying LATEST changes nothing", "[checkpoint]") {
  ScratchFolder folder;
  save_tiny(folder.path(), 1);
  save_tiny(folder.path(), 2);
  RankState state(tiny_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  CHECK(latest_from_text(file_bytes(folder.path() / "LATEST"), "LATEST").step == 2);
  for (const std::string& text : {std::string(), std::string("{\"sch"), std::string("step-00000001")}) {
    put_bytes(folder.path() / "LATEST", text);
    CHECK(c.restore(state.catalog).step == 2);
  }
}

TEST_CASE("a step that was removed by hand is told, and the newest one left is taken", "[checkpoint]") {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 3; ++step) save_tiny(folder.path(), step);
  RankState state(tiny_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  CHECK(c.restore(state.catalog).rejected.empty());
  for (const int64_t step : {3, 2}) std::filesystem::remove_all(folder.path() / folder_name_of(step));
  const RestoreResult result = c.restore(state.catalog);
  CHECK(result.step == 1);
  REQUIRE(result.rejected.size() == 1);
  CHECK_THAT(result.rejected[0], Catch::Contains("step-00000003: LATEST names it"));
  std::filesystem::remove_all(folder.path() / folder_name_of(1));
  CHECK_FALSE(c.restore(state.catalog).found);  // nothing is left: a fresh start, and told
}

TEST_CASE("a wrong block stays proven when the rest of its file cannot be read", "[checkpoint]") {
  ScratchFolder folder;
  const std::string bytes(static_cast<size_t>(kBlockBytes) + 100, 'x');
  put_bytes(folder.path() / "file", bytes);
  const std::string digest = xxh128_hex(bytes.data(), static_cast<size_t>(kBlockBytes));
  FileRecord record;
  record.path = "file";
  record.bytes = 3 * kBlockBytes;  // it ends before
  record.block_xxh128 = {digest, digest, digest};
  CHECK_THROWS_WITH(check_media(folder.path(), record, {}), Catch::Contains("it ends at byte"));
  put_byte(folder.path() / "file", 7, 'y');
  const MediaCheck check = check_media(folder.path(), record, {});
  REQUIRE(check.wrong.size() == 1);
  CHECK(check.wrong[0].block == 0);
  CHECK_THAT(check.unread, Catch::Contains("it ends at byte"));
}

}  // namespace trainctl::testing
