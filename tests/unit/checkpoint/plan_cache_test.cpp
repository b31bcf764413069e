// tests/unit/checkpoint/plan_cache_test.cpp -- the plan of a save, and what rank 0 knows of all ranks' plans, is kept
// from one save to the next, and never longer than it is true.
#include <cstring>
#include <functional>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/shard_plan.h"
#include "checkpoint/tensor_text.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

// "cut" by rows over two ranks; "own" of rank 1 alone.
std::vector<GlobalTensor> two_tensors() {
  return {{"cut", "weight", DType::f32, {6, 4}, 0, ""},
          {"own", "weight", DType::f32, {3, 4}, -1, ""},
          {"cut", "exp_avg", DType::f32, {6, 4}, 0, ""}};
}

struct Change {
  const char* what;
  std::function<void(StateEntry& own, StateEntry& cut, Arena& arena)> make;  // on rank 1
  std::string name = "own";  // of what rank 1 owns afterwards; "": nothing
  std::string refused = {};  // why the save must fail; "": it must not
};

std::vector<Change> changes() {
  return {
      {"nothing", [](StateEntry&, StateEntry&, Arena&) {}},
      {"name", [](StateEntry& own, StateEntry&, Arena&) { own.name = "owm"; }, "owm"},
      {"role", [](StateEntry& own, StateEntry&, Arena&) { own.role = "buffer"; }},
      {"dtype",
       [](StateEntry& own, StateEntry&, Arena& arena) {
         own.local = Tensor(arena, {3, 4}, DType::i32, MemoryCategory::weights);
         std::memset(own.local.data(), 7, 48);
       }},
      {"shape, in as many bytes",
       [](StateEntry& own, StateEntry&, Arena&) {
         own.shape = {4, 3};
         own.box = {{0, 0}, {4, 3}};
         own.local = own.local.reshape({4, 3});
       }},
      {"box",
       [](StateEntry&, StateEntry& cut, Arena&) {
         cut.box.offset[0] = 4;
         cut.box.extent[0] = 2;
         cut.local = cut.local.slice(0, 1, 3);
       },
       "own", "boxes hold 20 of 24 elements"},
      {"place of a box of the same size", [](StateEntry&, StateEntry& cut, Arena&) { cut.box.offset[0] = 2; }, "own",
       "boxes overlap at [2, 0]"},
      {"ownership", [](StateEntry& own, StateEntry&, Arena&) { own.owner = false; }, ""},
      {"storage alone",
       [](StateEntry& own, StateEntry&, Arena& arena) {
         own.local = Tensor(arena, {3, 4}, DType::f32, MemoryCategory::weights);
         std::memset(own.local.data(), 9, 48);
       }},
  };
}

}  // namespace

TEST_CASE("what changes in one rank's catalog between two saves is in the second one, or refuses it", "[checkpoint]") {
  for (const Change& change : changes()) {
    CAPTURE(change.what);
    ScratchFolder folder;
    ThreadWorld ranks(2);
    std::vector<SaveOutcome> outcomes(2);
    StateEntry own;
    std::string bytes;
    on_ranks(2, [&](int64_t r) {
      RankState state(two_tensors(), r, 2);
      state.fill(1);
      state.catalog[1].owner = r == 1;
      Checkpointer c =
          build_checkpointer({}, options_for(folder.path(), ranks.agreement(r)), state.arena(), state.catalog);
      c.save(state.catalog, scalars_at(1), SaveReason::final);
      if (!c.wait().front().ok) throw std::runtime_error("not saved");
      const std::string before = catalog_fingerprint(state.catalog);
      if (r == 1) {
        change.make(state.catalog[1], state.catalog[0], state.arena());
        const bool same_plan = std::string(change.what) == "nothing" || std::string(change.what) == "storage alone";
        if ((catalog_fingerprint(state.catalog) == before) != same_plan) throw std::runtime_error("the fingerprint");
        own = state.catalog[1];
        own.local = Tensor();
        bytes.assign(static_cast<const char*>(state.catalog[1].local.data()), 48);
      }
      c.save(state.catalog, scalars_at(2), SaveReason::final);
      outcomes[static_cast<size_t>(r)] = c.wait().front();
      c.save(state.catalog, scalars_at(3), SaveReason::final);  // what the second one left behind is as good
      if (c.wait().front().ok != outcomes[static_cast<size_t>(r)].ok) throw std::runtime_error("the third save");
    });
    for (const SaveOutcome& o : outcomes) {
      CAPTURE(o.reason);
      CHECK(o.ok == change.refused.empty());
      CHECK_THAT(o.reason, Catch::Contains(change.refused));
    }
    if (!change.refused.empty()) continue;
    CHECK(tensors_text(read_manifest(folder.path() / "step-00000002").tensors) ==
          tensors_text(read_manifest(folder.path() / "step-00000003").tensors));
    CheckpointReader reader(folder.path() / "step-00000003");
    std::vector<std::string> names;
    for (const TensorRecord& t : reader.manifest().tensors)
      if (t.name != "cut") names.push_back(t.name);
    CHECK(names == (change.name.empty() ? std::vector<std::string>() : std::vector<std::string>{change.name}));
    if (change.name.empty()) continue;
    const TensorRecord* t = reader.find(change.name, own.role);
    REQUIRE(t != nullptr);
    CHECK(t->shape == own.shape);
    std::string read(48, '\0');
    reader.read(*t, whole(t->shape), t->dtype, read.data());
    CHECK(read == bytes);
  }
}

}  // namespace trainctl::testing
