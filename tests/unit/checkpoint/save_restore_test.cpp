// tests/unit/checkpoint/save_restore_test.cpp -- what is saved comes back, bit for bit, in any layout.
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/scan.h"
#include "checkpoint/shard_plan.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

// First touches of memory by this process, all threads: the minor ones, so that a page that the system reclaimed is
// none.
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

std::vector<std::string> restore_on(const std::filesystem::path& folder, int64_t world, uint32_t salt, int64_t step) {
  ThreadWorld ranks(world);
  std::vector<std::string> differences(static_cast<size_t>(world));
  on_ranks(world, [&](int64_t r) {
    RankState state(small_model(), r, world);
    Checkpointer c = build_checkpointer({}, options_for(folder, ranks.agreement(r)), state.arena(), state.catalog);
    const RestoreResult result = c.restore(state.catalog);
    std::string& d = differences[static_cast<size_t>(r)];
    d = state.difference(salt);
    if (!result.found || result.step != step) d = "not found";
    const ScalarState expected = scalars_at(step);
    if (result.scalars.consumed_samples != expected.consumed_samples ||
        result.scalars.consumed_tokens != expected.consumed_tokens || result.scalars.last_loss != expected.last_loss ||
        result.scalars.seed != expected.seed || result.scalars.data_fingerprint != expected.data_fingerprint ||
        result.scalars.data_state != expected.data_state)
      d = "scalars differ";
  });
  return differences;
}

}  // namespace

TEST_CASE("a state saved by one layout comes back bit for bit in every other", "[checkpoint]") {
  for (const int64_t from : {1, 2, 4, 5}) {
    ScratchFolder folder(true);
    save_once(folder.path(), from, 7, 3);
    for (const int64_t to : {1, 2, 3, 4}) {
      CAPTURE(from, to);
      for (const std::string& difference : restore_on(folder.path(), to, 3, 7)) CHECK(difference == "");
    }
  }
}

TEST_CASE("one to four to two ranks and back leaves every bit as it was", "[checkpoint]") {
  ScratchFolder folders[3];
  save_once(folders[0].path(), 1, 5, 9);
  const std::vector<int64_t> worlds = {1, 4, 2, 1};
  for (size_t hop = 0; hop < 2; ++hop) {
    const int64_t world = worlds[hop + 1];
    ThreadWorld ranks(world), second(world);
    on_ranks(world, [&](int64_t r) {
      RankState state(small_model(), r, world);
      build_checkpointer({}, options_for(folders[hop].path(), ranks.agreement(r)), state.arena(), state.catalog)
          .restore(state.catalog);
      Checkpointer next = build_checkpointer({}, options_for(folders[hop + 1].path(), second.agreement(r)),
                                             state.arena(), state.catalog);
      next.save(state.catalog, scalars_at(5), SaveReason::final);
      for (const SaveOutcome& o : next.wait())
        if (!o.ok) throw std::runtime_error(o.reason);
    });
  }
  CHECK(restore_on(folders[2].path(), 1, 9, 5).front() == "");
}

TEST_CASE("the stored state is the one of the moment save() was called", "[checkpoint]") {
  for (const char* copy : {"blocking", "lazy"}) {
    INFO(copy);
    ScratchFolder folder;
    RankState state(small_model(), 0, 1);
    state.fill(1);
    CheckpointerOptions options = options_for(folder.path());
    std::atomic<bool> mutated = false;
    options.on_point = [&](SavePoint point) {  // the writer waits until the live tensors have changed
      while (point == SavePoint::created && !mutated) std::this_thread::yield();
    };
    CheckpointConfig config;
    config.copy = copy;
    Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(1), SaveReason::interval);
    if (config.copy == "lazy") c.wait_copied();  // a blocking copy needs none
    state.fill(2);
    mutated = true;
    const std::vector<SaveOutcome> outcomes = c.wait();
    REQUIRE(outcomes.size() == 1);
    CHECK(outcomes[0].ok);
    CHECK(outcomes[0].reason == "");
    RankState other(small_model(), 0, 1);
    CHECK(c.restore(other.catalog).found);
    CHECK(other.difference(1) == "");
  }
}

TEST_CASE("waiting for a copy that nobody makes returns at once", "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  state.fill(1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  c.wait_copied();
  c.save(state.catalog, scalars_at(1), SaveReason::final);  // signal and final saves copy before they return
  state.fill(2);
  c.wait_copied();
  REQUIRE(c.wait().front().ok);
  RankState other(small_model(), 0, 1);
  CHECK(c.restore(other.catalog).found);
  CHECK(other.difference(1) == "");
}

TEST_CASE("a save while one is in flight is skipped with a reason, a final one waits for it", "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  state.fill(1);
  CheckpointerOptions options = options_for(folder.path());
  std::atomic<bool> release = false;
  options.on_point = [&](SavePoint point) {
    while (point == SavePoint::written && !release) std::this_thread::yield();
  };
  Checkpointer c = build_checkpointer({}, std::move(options), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  c.save(state.catalog, scalars_at(2), SaveReason::interval);
  const std::vector<SaveOutcome> early = c.poll();
  REQUIRE(early.size() == 1);
  CHECK(early[0].skipped);
  CHECK_FALSE(early[0].ok);
  CHECK(early[0].step == 2);
  CHECK(early[0].reason.find("still being written") != std::string::npos);
  release = true;
  c.save(state.catalog, scalars_at(3), SaveReason::final);
  const std::vector<SaveOutcome> late = c.wait();
  REQUIRE(late.size() == 2);
  CHECK((late[0].ok && late[0].step == 1));
  CHECK((late[1].ok && late[1].step == 3));
  c.save(state.catalog, scalars_at(3), SaveReason::final);  // the same state once more: nothing to do
  CHECK(c.wait().front().reason == "this step is already saved");
}

TEST_CASE("a bf16 weight is not stored beside its f32 master but follows from it", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 4);
  CheckpointReader reader(folder.path() / "step-00000001");
  const TensorRecord* weight = reader.find("embedding.weight", "weight");
  REQUIRE(weight);
  CHECK(weight->derived_from_role == "master");
  CHECK(weight->chunks.empty());
  RankState state(small_model(), 0, 1);
  int64_t unique = 0;
  for (const StateEntry& e : state.catalog)
    if (e.alias_of.empty() && e.local.dtype() != DType::bf16) unique += e.local.bytes();
  int64_t stored = 0;
  for (const FileRecord& f : reader.manifest().files) stored += f.bytes - f.header_bytes;
  CHECK(stored == unique);

  state.fill(4);
  static_cast<bf16*>(state.catalog[0].local.data())[5].bits ^= 1;  // no cast of the master any more
  ScratchFolder other;
  Checkpointer c = build_checkpointer({}, options_for(other.path()), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  const SaveOutcome outcome = c.wait().front();
  CHECK_FALSE(outcome.ok);
  CHECK(outcome.reason.find("embedding.weight") != std::string::npos);
  CHECK_FALSE(c.restore(state.catalog).found);
}

TEST_CASE("staging takes exactly the bytes that staging_bytes says, once, also shape-only", "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  state.fill(1);
  const int64_t expected = staging_bytes(state.catalog);
  CHECK(expected % 64 == 0);
  const int64_t before = state.arena().counters().now[static_cast<size_t>(MemoryCategory::other)];
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  CHECK(state.arena().counters().now[static_cast<size_t>(MemoryCategory::other)] - before == expected);
  const int64_t allocations = state.arena().counters().system_allocations;
  for (int64_t step = 1; step <= 3; ++step) {
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    CHECK(c.wait().front().ok);
  }
  CHECK(state.arena().counters().system_allocations == allocations);

  const std::unique_ptr<Device> device = make_shape_only_device();
  Arena arena(*device);
  StateCatalog shapes = state.catalog;
  for (StateEntry& e : shapes) e.local = Tensor(arena, e.box.extent, e.local.dtype(), MemoryCategory::weights);
  const Checkpointer dry = build_checkpointer({}, options_for(folder.path()), arena, shapes);
  CHECK(arena.counters().now[static_cast<size_t>(MemoryCategory::other)] == expected);
}

TEST_CASE("after the first save no save allocates more than 1 MiB at once, nor touches as much new memory",
          "[checkpoint]") {
  const std::string io = GENERATE(from_range(io_paths()));
  CAPTURE(io);
  ScratchFolder folder;
  RankState state(
      {{"w", "weight", DType::f64, {1300, 1024}, -1, ""}, {"w", "exp_avg", DType::f64, {400, 1024}, -1, ""}}, 0, 1);
  state.fill(1);
  CheckpointConfig config;
  config.io = io;
  Checkpointer c = build_checkpointer(config, options_for(folder.path()), state.arena(), state.catalog);
  const int64_t system = state.arena().counters().system_allocations;
  int64_t large = 0;
  for (int64_t step = 1; step <= 4; ++step) {
    if (step == 2) large = large_allocations();
    const int64_t faults = page_faults();
    c.save(state.catalog, scalars_at(step), SaveReason::interval);
    CHECK(c.wait().front().ok);
    if (step == 1) continue;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)         // their own memory grows
    CHECK((page_faults() - faults) * ::sysconf(_SC_PAGESIZE) < (1 << 20));  // whoever handed it out
#else
    CHECK(page_faults() >= faults);
#endif
  }
  CHECK(large_allocations() == large);
  CHECK(state.arena().counters().system_allocations == system);
  const std::vector<char> counted(2 << 20);  // the counter does count
  CHECK(large_allocations() == large + 1);
}

TEST_CASE("a state with infinities or NaNs is kept as intermediate and never resumed by itself", "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  state.fill(1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  c.save(state.catalog, scalars_at(1), SaveReason::interval);
  REQUIRE(c.wait().front().ok);
  static_cast<float*>(state.catalog[2].local.data())[3] = std::nanf("");  // an exp_avg
  c.save(state.catalog, scalars_at(2), SaveReason::interval);
  REQUIRE(c.wait().front().ok);
  ScalarState lost = scalars_at(3);
  lost.last_loss = HUGE_VAL;
  state.fill(1);
  c.save(state.catalog, lost, SaveReason::interval);
  REQUIRE(c.wait().front().ok);
  CHECK(inspect_folder(folder.path() / "step-00000002").kind == "intermediate");
  CHECK(inspect_folder(folder.path() / "step-00000003").kind == "intermediate");
  const RestoreResult result = c.restore(state.catalog);
  CHECK(result.step == 1);
  CHECK(result.rejected.size() == 2);
  const std::string third = (folder.path() / "step-00000003").string();
  CHECK_THROWS_AS(c.restore(state.catalog, third), Error);
  const RestoreResult named = c.restore(state.catalog, third, /*allow_intermediate=*/true);
  CHECK(named.step == 3);
  CHECK(std::isinf(named.scalars.last_loss));
}

TEST_CASE("a checkpoint of another model is refused with all tensors named, never passed over", "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 1);
  std::vector<GlobalTensor> model = small_model();
  model[0].shape = {12, 6};
  model.push_back({"extra.weight", "weight", DType::f32, {2}, -1, ""});
  model[13].dtype = DType::i32;
  RankState state(model, 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path()), state.arena(), state.catalog);
  try {
    c.restore(state.catalog);
    FAIL("accepted");
  } catch (const Error& e) {
    const std::string text = e.what();
    CHECK(e.kind() == ErrorKind::checkpoint);
    CHECK(text.find("embedding.weight") != std::string::npos);
    CHECK(text.find("[11, 6]") != std::string::npos);
    CHECK(text.find("extra.weight") != std::string::npos);
    CHECK(text.find(fmt::format("\"{}\"", model[13].name)) != std::string::npos);
  }
}

TEST_CASE("asking for a checkpoint that is not there is an error, an empty folder with auto is a fresh start",
          "[checkpoint]") {
  ScratchFolder folder;
  RankState state(small_model(), 0, 1);
  Checkpointer c = build_checkpointer({}, options_for(folder.path() / "none"), state.arena(), state.catalog);
  CHECK_FALSE(c.restore(state.catalog).found);
  CHECK_THROWS_AS(c.restore(state.catalog, (folder.path() / "step-00000004").string()), Error);
  CHECK_THROWS_AS(c.restore(state.catalog, folder.path().string()), Error);
}

TEST_CASE("rank 0 reads the manifest for all; a text that changed on the way is refused by every rank",
          "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  for (const bool garbled : {false, true}) {
    ThreadWorld ranks(3);
    std::vector<std::string> what(3);
    on_ranks(3, [&](int64_t r) {
      RankState state(small_model(), r, 3);
      Agreement agreement = ranks.agreement(r);
      if (r == 2)
        agreement.broadcast_from_rank0 = [inner = agreement.broadcast_from_rank0, garbled](const std::string& text) {
          std::string got = inner(text);
          if (garbled && got.size() > 1000) got[500] ^= 1;  // the manifest, not the list of candidates
          return got;
        };
      Checkpointer c =
          build_checkpointer({}, options_for(folder.path(), std::move(agreement)), state.arena(), state.catalog);
      try {
        if (c.restore(state.catalog).step != 1 || !state.difference(1).empty()) what[static_cast<size_t>(r)] = "wrong";
      } catch (const Error& e) {
        what[static_cast<size_t>(r)] = e.what();
      }
    });
    for (int64_t r = 0; r < 3; ++r) {
      CAPTURE(r, what[static_cast<size_t>(r)]);
      CHECK((what[static_cast<size_t>(r)].find("none can be used") != std::string::npos) == garbled);
    }
    if (garbled) CHECK(what[2].find("came here with the SHA-256") != std::string::npos);
  }
}

TEST_CASE("a manifest that only rank 0 can judge rejects the checkpoint on all ranks with rank 0's reason",
          "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 2, 1, 1);
  save_once(folder.path(), 2, 2, 2);
  const std::filesystem::path manifest = folder.path() / "step-00000002/manifest.json";
  put_byte(manifest, file_bytes(manifest).size() / 2, '~');  // a glance does not see it
  ThreadWorld ranks(2);
  std::vector<RestoreResult> results(2);
  on_ranks(2, [&](int64_t r) {
    RankState state(small_model(), r, 2);
    Checkpointer c =
        build_checkpointer({}, options_for(folder.path(), ranks.agreement(r)), state.arena(), state.catalog);
    results[static_cast<size_t>(r)] = c.restore(state.catalog);
  });
  for (const RestoreResult& result : results) {
    CHECK(result.step == 1);
    REQUIRE(result.rejected.size() == 1);
    CHECK(result.rejected[0].find("step-00000002: manifest.json has the SHA-256") != std::string::npos);
  }
}

}  // namespace trainctl::testing
