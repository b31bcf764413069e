// tests/unit/checkpoint/shared_blocks_test.cpp -- what the ranks of a node need is read once there, bit for bit,
// whoever reads it, on the host and on devices.
#include "checkpoint/shared_blocks.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "checkpoint/placing.h"
#include "shared_blocks_fixture.h"
#include "support/catch.h"

namespace trainctl::testing {

TEST_CASE("a plan gives each block to one rank that needs it, and as many bytes to each as it can", "[checkpoint]") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 400; ++trial) {
    const size_t ranks = 1 + random() % 6, blocks = random() % 60;
    const size_t density = trial % 3 == 0 ? 100 : random() % 101;  // of 100
    std::vector<std::vector<bool>> needs(ranks, std::vector<bool>(blocks));
    std::vector<int64_t> bytes(blocks, kBlockBytes);
    for (size_t b = 0; b < blocks; ++b) {
      if (b % 7 == 6) bytes[b] = 1 + random() % 1000;  // the end of a file
      for (size_t p = 0; p < ranks; ++p) needs[p][b] = random() % 100 < density;
    }
    const SharingPlan plan = plan_sharing(needs, bytes);
    CAPTURE(trial, ranks, blocks, density);
    REQUIRE(plan.alone.size() == ranks);
    std::vector<int> readers(blocks, 0);
    std::vector<int64_t> load(ranks, 0), last(ranks, -1);
    const auto reads = [&](size_t p, int64_t block) {
      const auto b = static_cast<size_t>(block);
      CHECK(needs[p][b]);
      ++readers[b];
      load[p] += bytes[b];
    };
    const auto needers = [&](int64_t block) {
      int64_t count = 0;
      for (size_t p = 0; p < ranks; ++p) count += needs[p][static_cast<size_t>(block)];
      return count;
    };
    for (size_t p = 0; p < ranks; ++p) {
      CHECK(std::is_sorted(plan.alone[p].begin(), plan.alone[p].end()));
      for (const int64_t block : plan.alone[p]) {
        reads(p, block);
        CHECK(needers(block) == 1);
      }
    }
    for (const SharingPlan::Step& step : plan.shared) {
      reads(step.reader, step.block);
      CHECK(needers(step.block) > 1);
      CHECK(last[step.reader] < step.block);  // each reads forward
      last[step.reader] = step.block;
    }
    for (size_t b = 0; b < blocks; ++b) CHECK(readers[b] == (needers(static_cast<int64_t>(b)) > 0 ? 1 : 0));
    if (density == 100 && ranks > 1)
      CHECK(*std::max_element(load.begin(), load.end()) - *std::min_element(load.begin(), load.end()) <= kBlockBytes);
  }
}

TEST_CASE("every pair of 1 to 5 ranks with rows, columns and replicas on both sides comes back bit for bit",
          "[checkpoint]") {
  for (int64_t from = 1; from <= 5; ++from) {
    ScratchFolder folder;
    save(folder.path(), all_cuts(true), from);
    for (int64_t to = 1; to <= 5; ++to) {
      CAPTURE(from, to);
      ThreadWorld ranks(to);
      const std::vector<Loaded> all = load(folder.path(), all_cuts(false), ranks, to);
      for (const Loaded& loaded : all) CHECK(loaded.wrong == 0);
      check_counts(all, std::vector<int>(static_cast<size_t>(to), 0));
    }
  }
}

TEST_CASE("a node reads at most 1.25 times what it needs, with rows, with columns, and with replicas", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kRows), 2);
  const int64_t unique = (1400 + 1500) * 1800 * 8;
  for (const int cut : kCuts)
    for (const int64_t world : {2, 3, 4}) {
      CAPTURE(cut, world);
      ThreadWorld ranks(world);
      const std::vector<Loaded> all = load(folder.path(), large(cut), ranks, world);
      for (const Loaded& loaded : all) CHECK(loaded.wrong == 0);
      check_counts(all, std::vector<int>(static_cast<size_t>(world), 0));
      const LoadCost& cost = all.front().result.cost;
      CHECK(cost.world.needed == (cut == kReplica ? world : 1) * unique);
      CHECK(static_cast<double>(cost.world.read) <= 1.25 * static_cast<double>(unique));
      CHECK(cost.world.read <= cost.stored);
      // All read at the same time: nobody is spared more than a block or two.
      for (const Loaded& loaded : all)
        CHECK(std::abs(loaded.result.cost.rank.read - cost.world.read / world) <= 2 * kBlockBytes);
    }
}

TEST_CASE("whatever each rank needs, the exchange comes to its end", "[checkpoint]") {
  constexpr int64_t kBlocks = 24, kRow = kBlockBytes / 8, kPart = 1000;
  ScratchFolder folder;
  const std::vector<GlobalTensor> rows = {{"w", "weight", DType::f64, {kBlocks, kRow}, kReplica, ""}};
  save(folder.path(), rows, 1);
  Matrices all(rows, 0, 1);
  all.fill();
  const auto* expected = static_cast<const double*>(all.state.catalog[0].local.data());
  for (unsigned trial = 0; trial < 12; ++trial) {
    CAPTURE(trial);
    const int64_t world = 2 + trial % 6;
    ThreadWorld ranks(world);
    on_ranks(world, [&](int64_t r) {
      std::mt19937 random(trial * 100 + static_cast<unsigned>(r));
      const auto density = random() % 101;
      CheckpointReader reader(folder.path() / "step-00000001");
      const TensorRecord* w = reader.find("w", "weight");
      std::vector<ReadRequest> requests;
      std::vector<std::vector<double>> got;
      for (int64_t row = 0; row < kBlocks; ++row) {
        if (random() % 100 >= density) continue;
        const auto column = static_cast<int64_t>(random() % (kRow - kPart));
        got.emplace_back(kPart);
        requests.push_back({w, {{row, column}, {1, kPart}}, DType::f64, got.back().data()});
      }
      reader.read_all(requests, ranks.agreement(r));
      for (size_t i = 0; i < got.size(); ++i) {
        const Shape& at = requests[i].box.offset;
        if (std::memcmp(got[i].data(), expected + at[0] * kRow + at[1], kPart * sizeof(double)) != 0)
          throw std::runtime_error("other elements came");
      }
    });
  }
}

TEST_CASE("ranks share with those of their own node alone", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kColumns), 3);
  for (const std::vector<int>& nodes :
       {std::vector<int>{0, 0, 1}, {0, 1, 0}, {0, 1, 2}, {0, 0, 1, 1}, {2, 1, 1, 2, 1}, {0, 1, 1, 1, 1}})
    for (const int cut : kCuts) {
      CAPTURE(nodes.size(), nodes.back(), cut);
      const int64_t world = std::ssize(nodes);
      ThreadWorld ranks(world, nodes);
      ranks.on_delivery = [&](int64_t from, int64_t to, char*, int64_t) {
        if (nodes[static_cast<size_t>(from)] != nodes[static_cast<size_t>(to)])
          throw std::runtime_error("bytes went to another node");
      };
      const std::vector<Loaded> all = load(folder.path(), large(cut), ranks, world);
      for (const Loaded& loaded : all) CHECK(loaded.wrong == 0);
      check_counts(all, nodes);
    }
}

TEST_CASE("a rank with nothing to read takes part: empty boxes, and none at all", "[checkpoint]") {
  ScratchFolder folder;
  const std::vector<GlobalTensor> two_rows = {{"w", "weight", DType::f64, {2, 700'000}, kRows, ""}};
  save(folder.path(), two_rows, 1);
  ThreadWorld ranks(4);  // two of them hold no row
  const std::vector<Loaded> all = load(folder.path(), two_rows, ranks, 4);
  for (size_t r = 0; r < 4; ++r) {
    CAPTURE(r);
    CHECK(all[r].wrong == 0);
    CHECK((all[r].result.cost.rank.needed == 0) == (r > 1));
    CHECK((all[r].result.cost.rank.read + all[r].result.cost.rank.received == 0) == (r > 1));
    CHECK(all[r].result.cost.io_path.empty() == (all[r].result.cost.rank.read == 0));
  }
  ThreadWorld more(3);
  on_ranks(3, [&](int64_t r) {
    Matrices m(r == 1 ? std::vector<GlobalTensor>() : large(kReplica), r, 3);
    Checkpointer c = build_checkpointer({}, options_for(folder.path() / "other", more.agreement(r)), m.state.arena(),
                                        m.state.catalog);
    if (r != 1) m.fill();
    c.save(m.state.catalog, scalars_at(1), SaveReason::final);
    for (const SaveOutcome& o : c.wait())
      if (!o.ok) throw std::runtime_error(o.reason);
    m.state.wipe();
    if (c.restore(m.state.catalog).step != 1 || m.wrong() != 0) throw std::runtime_error("another state came back");
  });
}

namespace {

// Host memory that only copies reach, as far as the module can tell.
class FarDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::unique_ptr<Stream> make_compute_stream() override { return near_->make_compute_stream(); }
  void* allocate(int64_t bytes) override { return near_->allocate(bytes); }
  void release(void* data, int64_t bytes) override { near_->release(data, bytes); }
  void copy(void* to, const void* from, int64_t bytes, Stream& s) override { near_->copy(to, from, bytes, s); }
  void copy_to_host(void* to, const void* from, int64_t bytes, Stream& s) override { copy(to, from, bytes, s); }
  void copy_from_host(void* to, const void* from, int64_t bytes, Stream& s) override {
    ++copies;
    copy(to, from, bytes, s);
  }
  void zero(void* to, int64_t bytes, Stream& s) override { near_->zero(to, bytes, s); }
  int64_t copies = 0;

 private:
  std::unique_ptr<Device> near_ = make_cpu_device();
};

}  // namespace

TEST_CASE("ranks on devices fill theirs in the same batches, whatever each holds", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), all_cuts(true), 2);
  ThreadWorld ranks(3);
  std::vector<LoadCost> costs(3);
  on_ranks(3, [&](int64_t r) {
    std::vector<GlobalTensor> model = all_cuts(false);
    // As stages of a pipeline: one holds the first tensors, one the last, one none.
    if (r == 0) model.resize(5);
    if (r == 1) model.erase(model.begin(), model.begin() + 3);
    if (r == 2) model.clear();
    Matrices m(model, r, 3);
    FarDevice device;
    CheckpointReader reader(folder.path() / "step-00000001");
    std::vector<Placement> placements;
    for (const StateEntry& e : m.state.catalog)
      if (e.local.numel() > 0) placements.push_back({reader.find(e.name, e.role), &e});
    place_tensors(reader, placements, device, ranks.agreement(r), 3 << 20);
    if (m.wrong() != 0 || device.copies != std::ssize(placements)) throw std::runtime_error("not filled");
    costs[static_cast<size_t>(r)] = reader.cost(ranks.agreement(r));
  });
  CHECK(costs[2].rank.needed == 0);
  CHECK(costs[0].rank.received + costs[1].rank.received > 0);
}

}  // namespace trainctl::testing
