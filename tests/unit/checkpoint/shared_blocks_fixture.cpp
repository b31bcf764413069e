// tests/unit/checkpoint/shared_blocks_fixture.cpp -- saving, loading, counting.
#include "shared_blocks_fixture.h"

#include <set>

#include "checkpoint/checkpoint_reader.h"
#include "support/catch.h"

namespace trainctl::testing {

namespace fs = std::filesystem;

std::vector<GlobalTensor> all_cuts(bool saving) {
  std::vector<GlobalTensor> all;
  for (const int from : kCuts)
    for (const int to : kCuts)
      all.push_back({fmt::format("{}{}", from, to),
                     from == to ? "weight" : "exp_avg",
                     DType::f64,
                     {403, 449},
                     saving ? from : to,
                     ""});
  return all;
}

std::vector<GlobalTensor> large(int cut) {
  return {{"w", "weight", DType::f64, {1400, 1800}, cut, ""}, {"w", "exp_avg", DType::f64, {1500, 1800}, cut, ""}};
}

void save(const fs::path& folder, const std::vector<GlobalTensor>& model, int64_t world, int64_t step) {
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    Matrices m(model, r, world);
    m.fill();
    Checkpointer c = build_checkpointer({}, options_for(folder, ranks.agreement(r)), m.state.arena(), m.state.catalog);
    c.save(m.state.catalog, scalars_at(step), SaveReason::interval);
    for (const SaveOutcome& o : c.wait())
      if (!o.ok) throw std::runtime_error(o.reason);
  });
}

std::vector<Loaded> load(const fs::path& folder, const std::vector<GlobalTensor>& model, ThreadWorld& ranks,
                         int64_t world, const std::function<void(int64_t, CheckpointerOptions&)>& change) {
  std::vector<Loaded> all(static_cast<size_t>(world));
  on_ranks(world, [&](int64_t r) {
    Matrices m(model, r, world);
    CheckpointerOptions options = options_for(folder, ranks.agreement(r));
    if (change) change(r, options);
    Checkpointer c = build_checkpointer({}, std::move(options), m.state.arena(), m.state.catalog);
    Loaded& loaded = all[static_cast<size_t>(r)];
    loaded.result = c.restore(m.state.catalog);
    loaded.wrong = m.wrong();
    if (loaded.result.found) loaded.blocks = needed_blocks(CheckpointReader(loaded.result.folder), m.state.catalog);
  });
  return all;
}

void check_counts(const std::vector<Loaded>& all, const std::vector<int>& nodes) {
  const Manifest manifest = CheckpointReader(all.front().result.folder).manifest();
  LoadCost::Bytes world;
  for (const int node : std::set<int>(nodes.begin(), nodes.end())) {
    CAPTURE(node);
    BlockSet needed;
    int64_t read = 0;
    for (size_t r = 0; r < all.size(); ++r) {
      if (nodes[r] != node) continue;
      const LoadCost& cost = all[r].result.cost;
      CHECK(cost.rank.read + cost.rank.received == bytes_of_blocks(manifest, all[r].blocks));
      needed.insert(all[r].blocks.begin(), all[r].blocks.end());
      read += cost.rank.read;
    }
    CHECK(read == bytes_of_blocks(manifest, needed));
  }
  for (const Loaded& loaded : all) {
    world.read += loaded.result.cost.rank.read;
    world.received += loaded.result.cost.rank.received;
    world.needed += loaded.result.cost.rank.needed;
  }
  for (const Loaded& loaded : all) {
    CHECK(loaded.result.cost.world.read == world.read);
    CHECK(loaded.result.cost.world.received == world.received);
    CHECK(loaded.result.cost.world.needed == world.needed);
  }
}

}  // namespace trainctl::testing
