// tests/unit/checkpoint/completeness_test.cpp -- the twelve state classes: seen, declared or absent; and the files of
// meta/.
#include "checkpoint/completeness.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/attempt.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/scan.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::vector<GlobalTensor> model = small_model();
  CheckpointerOptions options;
  ScalarState scalars = scalars_at(1);
};

SaveOutcome saved(Case c) {
  RankState state(c.model, 0, 1);
  state.fill(1);
  Checkpointer checkpointer = build_checkpointer({}, std::move(c.options), state.arena(), state.catalog);
  checkpointer.save(state.catalog, c.scalars, SaveReason::interval);
  return checkpointer.wait().front();
}

void undeclare(Case& c, const std::string& name) {
  std::erase_if(c.options.derived, [&name](const StateClass& d) { return d.name == name; });
}

void drop_roles(Case& c, const std::vector<std::string>& roles) {
  std::erase_if(c.model, [&roles](const GlobalTensor& g) {
    return std::find(roles.begin(), roles.end(), g.role) != roles.end();
  });
}

void drop_meta(Case& c, const std::string& path) {
  std::erase_if(c.options.meta, [&path](const MetaFile& f) { return f.path == path; });
}

}  // namespace

TEST_CASE("a training checkpoint that lacks any of the twelve state classes is refused, with the class named",
          "[checkpoint]") {
  std::vector<std::pair<std::string, std::function<void(Case&)>>> cases = {
      {"weights",
       [](Case& c) {
         drop_roles(c, {"weight", "master"});
       }},
      {"optimizer",
       [](Case& c) {
         drop_roles(c, {"exp_avg", "exp_avg_sq", "momentum"});
         undeclare(c, "optimizer");
       }},
      {"consumed_tokens", [](Case& c) { c.scalars.consumed_tokens = -1; }},
      {"topology", [](Case& c) { c.options.topology.clear(); }},
      {"sharding",
       [](Case& c) {
         c.model.clear();
         c.options.derived.push_back({"weights", "derived", "a test's word"});
       }},
  };
  for (const char* name : {"scheduler", "loss_scaler", "rng", "sampler", "packing", "low_precision_scaling"})
    cases.emplace_back(name, [name](Case& c) { undeclare(c, name); });
  for (const VersionPart& part : kVersionParts)
    cases.emplace_back("versions." + std::string(part.name),
                       [file = std::string(part.file)](Case& c) { drop_meta(c, file); });
  std::map<std::string, int> covered;
  for (const auto& [name, spoil] : cases) {
    ScratchFolder folder;
    Case c{.options = options_for(folder.path())};
    spoil(c);
    const SaveOutcome outcome = saved(std::move(c));
    CAPTURE(name, outcome.reason);
    CHECK_FALSE(outcome.ok);
    CHECK(outcome.reason.find("\"" + name + "\" is absent") != std::string::npos);
    CHECK(scan_checkpoints(folder.path()).empty());
    ++covered[name.substr(0, name.find('.'))];
  }
  CHECK(covered.size() == kStateClasses.size());
}

TEST_CASE("an intermediate state is kept even when classes are absent, and its table says so", "[checkpoint]") {
  ScratchFolder folder;
  Case c{.options = options_for(folder.path())};
  c.options.derived.clear();
  c.options.meta.clear();
  c.scalars.non_finite_count = 1;
  REQUIRE(saved(std::move(c)).ok);
  const Manifest m = read_manifest(folder.path() / "step-00000001");
  CHECK(m.kind == "intermediate");
  CHECK(m.completeness.size() == kStateClasses.size());
  for (const StateClass& s : m.completeness)
    if (s.name == "scheduler" || s.name == "versions" || s.name == "rng") CHECK(s.state == "absent");
}

TEST_CASE("the manifest says of every class whether and where it is, and what is seen beats what is declared",
          "[checkpoint]") {
  ScratchFolder folder;
  REQUIRE(saved({.options = options_for(folder.path())}).ok);
  const Manifest m = read_manifest(folder.path() / "step-00000001");
  std::map<std::string, StateClass> table;
  for (const StateClass& c : m.completeness) table[c.name] = c;
  REQUIRE(table.size() == kStateClasses.size());
  CHECK(table["optimizer"].state == "present");  // although declared: there are tensors
  CHECK(table["optimizer"].where.find("exp_avg, exp_avg_sq, momentum") != std::string::npos);
  CHECK(table["rng"].state == "derived");
  CHECK(table["rng"].where == "a test's word");
  CHECK(table["versions"].state == "present");
  REQUIRE(table["versions"].parts.size() == 5);
  for (const StateClass& part : table["versions"].parts)
    CHECK(fs::exists(folder.path() / "step-00000001" / part.where));
  const std::string text = to_text(m);
  CHECK(to_text(manifest_from_text(text, "again")) == text);
}

TEST_CASE("the files of meta hold what the save was told, are listed with their digests, and are part of the whole",
          "[checkpoint]") {
  ScratchFolder folder, other;
  REQUIRE(saved({.options = options_for(folder.path())}).ok);
  fs::copy(folder.path() / "step-00000001", other.path() / "copy", fs::copy_options::recursive);
  const fs::path copy = other.path() / "copy";
  const Manifest m = read_manifest(copy);
  REQUIRE(m.meta.size() == kVersionParts.size());
  for (const MetaFile& f : options_for("").meta) CHECK(file_bytes(copy / f.path) == f.content);
  for (const MetaRecord& f : m.meta) {
    const std::string good = file_bytes(copy / f.path);
    CHECK(f.xxh128 == xxh128_hex(good.data(), good.size()));
    CHECK(verify_checkpoint(copy, false).whole());
    for (const std::string& bad : {good + " ", std::string(), "X" + good.substr(1)}) {
      put_bytes(copy / f.path, bad);
      CHECK(inspect_folder(copy).state == CheckpointState::damaged);
      CHECK(inspect_folder(copy).reason.find(f.path) != std::string::npos);
    }
    put_bytes(copy / f.path, good);
  }
  CHECK(verify_checkpoint(copy, true).notes.empty());
  CHECK_FALSE(fs::exists(copy / kAttemptName));
}

TEST_CASE("what a save knew at its beginning comes back from attempt.json bit for bit", "[checkpoint]") {
  ScratchFolder folder;
  SaveJob job;
  job.root = folder.path();
  job.attempt = random_hex(32);
  job.run_id = "a run";
  job.reason = "interval";
  job.parent = std::string(64, 'a');
  job.topology = R"({"world":3})";
  job.provenance = R"({"build":"abc"})";
  job.step = 12;
  job.world = 3;
  job.scalars = scalars_at(12);
  job.meta = options_for("").meta;
  job.derived = options_for("").derived;
  fs::create_directories(job.staging_folder());
  open_attempt(job);
  const LeftAttempt left = read_attempt(job.staging_folder());
  Manifest before = draft_of(job), after = draft_of(left.job);
  before.created_ns = after.created_ns = 0;
  CHECK(to_text(before) == to_text(after));
  CHECK(state_of(left.owner) == OwnerState::alive);
  const fs::path record = job.staging_folder() / kAttemptName;
  const std::string good = file_bytes(record);
  for (size_t i = 0; i < good.size(); i += 3) {
    put_byte(record, i, static_cast<char>(good[i] ^ 1));
    CHECK_THROWS_AS(read_attempt(job.staging_folder()), Error);
    put_byte(record, i, good[i]);
  }
  put_bytes(job.staging_folder() / "meta/features.json", "{}");
  CHECK_THROWS_WITH(read_attempt(job.staging_folder()), Catch::Contains("meta/features.json"));
}

TEST_CASE("an owner that has ended, or whose number another process has now, is gone", "[checkpoint]") {
  Owner owner = this_process();
  CHECK(state_of(owner) == OwnerState::alive);
  Owner earlier = owner;
  earlier.start_ticks -= 1;
  CHECK(state_of(earlier) == OwnerState::gone);
  Owner rebooted = owner;
  rebooted.boot_id = "another boot";
  CHECK(state_of(rebooted) == OwnerState::gone);
  Owner elsewhere = owner;
  elsewhere.host = "another-host";
  CHECK(state_of(elsewhere) == OwnerState::unknown);
  Owner nobody = owner;
  nobody.pid = 1 << 30;
  CHECK(state_of(nobody) == OwnerState::gone);
}

}  // namespace trainctl::testing
