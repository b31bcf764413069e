// tests/unit/checkpoint/shared_blocks_test.cpp -- what the ranks of a node need is read once there: bit for bit,
// whoever reads it, and refused by all when one of them cannot.
#include "checkpoint/shared_blocks.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>

#include "base/error.h"
#include "checkpoint/placing.h"
#include "checkpoint/retention.h"
#include "checkpoint/scan.h"
#include "faulty_queue.h"
#include "fixture.h"
#include "support/catch.h"
#include "support/needed_blocks.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kReplica = -1, kRows = 0, kColumns = 1;
const std::vector<int> kCuts = {kReplica, kRows, kColumns};

// Matrices of f64 whose elements follow from name and place: large ones in little time.
class Matrices {
 public:
  Matrices(const std::vector<GlobalTensor>& globals, int64_t rank, int64_t world) : state(globals, rank, world) {}
  void fill() {
    for_each([](uint64_t& is, uint64_t should) { is = should; });
  }
  int64_t wrong() {
    int64_t count = 0;
    for_each([&](const uint64_t& is, uint64_t should) { count += is != should; });
    return count;
  }
  RankState state;

 private:
  template <class F>
  void for_each(F&& f) {
    for (const StateEntry& e : state.catalog) {
      const uint64_t name = stream(e.name + e.role);
      auto* at = static_cast<uint64_t*>(e.local.data());
      for (int64_t r = 0; r < e.box.extent[0]; ++r)
        for (int64_t c = 0; c < e.box.extent[1]; ++c) {
          const auto place = static_cast<uint64_t>((e.box.offset[0] + r) * e.shape[1] + e.box.offset[1] + c);
          // An exponent that makes it finite.
          f(*at++, (((place + name) * 0x9E3779B97F4A7C15ull) >> 12) | 0x3ff0000000000000ull);
        }
    }
  }
  static uint64_t stream(const std::string& text) {
    uint64_t sum = 7;
    for (const char c : text) sum = sum * 1000003 + static_cast<unsigned char>(c);
    return sum << 24;
  }
};

// Nine matrices, 13 MB in several blocks: each way to be cut when saved with each way to be cut when loaded.
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

// 42 MB in two files.
std::vector<GlobalTensor> large(int cut) {
  return {{"w", "weight", DType::f64, {1400, 1800}, cut, ""}, {"w", "exp_avg", DType::f64, {1500, 1800}, cut, ""}};
}

void save(const fs::path& folder, const std::vector<GlobalTensor>& model, int64_t world, int64_t step = 1) {
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

struct Loaded {
  RestoreResult result;
  int64_t wrong = -1;
  BlockSet blocks;  // that this rank needs
};

// Each rank with its own part of `model`, and with options that `change` may alter. A load that throws is rethrown.
std::vector<Loaded> load(const fs::path& folder, const std::vector<GlobalTensor>& model, ThreadWorld& ranks,
                         int64_t world, const std::function<void(int64_t, CheckpointerOptions&)>& change = {}) {
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

// The law: over the ranks of a node every block once that one of them needs, and every rank has all its blocks.
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

std::string data_file(const fs::path& folder, int64_t step, const char* name) {
  return (folder / folder_name_of(step) / "data" / name).string();
}

void flip(const std::string& file, int64_t at) {
  put_byte(file, static_cast<size_t>(at), static_cast<char>(file_bytes(file)[static_cast<size_t>(at)] ^ 0x20));
}

}  // namespace

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

TEST_CASE("a damaged block, whoever reads it for whom, takes all ranks to the older checkpoint and is marked once",
          "[checkpoint]") {
  for (const int cut : kCuts)
    for (const int64_t block : {0, 4}) {
      CAPTURE(cut, block);
      ScratchFolder folder;
      save(folder.path(), large(kReplica), 1, 1);
      save(folder.path(), large(kReplica), 1, 2);
      flip(data_file(folder.path(), 2, "optim-r00000.safetensors"), block * kBlockBytes + 100'000);
      for (int again = 0; again < 2; ++again) {
        ThreadWorld ranks(3);
        const std::vector<Loaded> all = load(folder.path(), large(cut), ranks, 3);
        int found = 0, came_wrong = 0;
        for (const Loaded& loaded : all) {
          CHECK(loaded.result.step == 1);
          CHECK(loaded.wrong == 0);
          REQUIRE(loaded.result.rejected.size() == 1);
          const std::string& why = loaded.result.rejected[0];
          CAPTURE(why);
          CHECK(why.find("step-00000002") != std::string::npos);
          found += why.find("the file is damaged") != std::string::npos;
          came_wrong += why.find("came from rank") != std::string::npos;
        }
        CHECK(found == (again == 0 ? 1 : 0));
        if (again == 0 && cut != kRows) CHECK(came_wrong == 2);
      }
      const CheckpointInfo info = inspect_folder(folder.path() / "step-00000002");
      CHECK(info.state == CheckpointState::unusable);
      CHECK(info.reason.find(fmt::format("data/optim-r00000.safetensors: block {} is damaged", block)) !=
            std::string::npos);
    }
}

TEST_CASE("two ranks that find damage, and damage in every block, end as one does", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1, 1);
  save(folder.path(), large(kReplica), 1, 2);
  const std::string model = data_file(folder.path(), 2, "model-r00000.safetensors");
  for (const int64_t block : {0, 1, 2, 3, 4}) flip(model, block * kBlockBytes + 100'000);
  ThreadWorld ranks(4);
  for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 4)) {
    CHECK(loaded.result.step == 1);
    CHECK(loaded.wrong == 0);
  }
  CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::unusable);
}

TEST_CASE("a block that is spoilt between two ranks is refused by all, and no file is blamed", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1, 1);
  save(folder.path(), large(kReplica), 1, 2);
  // The first messages of a load say what a rank needs; any of them may be spoilt as well.
  for (const int spoilt : {0, 1, 2, 3}) {
    CAPTURE(spoilt);
    ThreadWorld ranks(3);
    std::atomic<int> number = 0;
    ranks.on_delivery = [&](int64_t from, int64_t to, char* data, int64_t bytes) {
      if (from == 1 && to == 2 && number++ == spoilt) data[bytes / 2] = static_cast<char>(data[bytes / 2] ^ 1);
    };
    int told = 0;
    for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 3)) {
      CHECK(loaded.result.step == 1);
      CHECK(loaded.wrong == 0);
      REQUIRE(loaded.result.rejected.size() == 1);
      const std::string& why = loaded.result.rejected[0];
      CAPTURE(why);
      told += why.find(spoilt == 0 ? "which blocks rank 1 needs" : "came from rank 1") != std::string::npos;
      CHECK(why.find("damaged") == std::string::npos);
    }
    CHECK(told == 1);
    CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);
    ranks.on_delivery = {};
    for (const Loaded& loaded : load(folder.path(), large(kReplica), ranks, 3)) CHECK(loaded.result.step == 2);
  }
}

TEST_CASE("a read error on one rank takes all to the older checkpoint and marks nothing", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kRows), 2, 1);
  save(folder.path(), large(kRows), 2, 2);
  for (const int cut : kCuts)
    for (const int64_t failing : {0, 2}) {
      CAPTURE(cut, failing);
      ThreadWorld ranks(3);
      std::atomic<int> reads = 0;
      int told = 0;
      const auto all = load(folder.path(), large(cut), ranks, 3, [&](int64_t rank, CheckpointerOptions& options) {
        if (rank == failing)
          options.wrap_io = faulty([&reads](const IoRequest&) { return ++reads == 2 ? Fate{.result = -EIO} : Fate{}; });
      });
      for (const Loaded& loaded : all) {
        CHECK(loaded.result.step == 1);
        CHECK(loaded.wrong == 0);
        REQUIRE(loaded.result.rejected.size() == 1);
        told += loaded.result.rejected[0].find(std::strerror(EIO)) != std::string::npos;
      }
      CHECK(told == 1);
      CHECK(inspect_folder(folder.path() / "step-00000002").state == CheckpointState::usable);
    }
}

TEST_CASE("a request that one rank cannot make is refused by all before anything is read", "[checkpoint]") {
  ScratchFolder folder;
  save(folder.path(), large(kReplica), 1);
  ThreadWorld ranks(3);
  std::vector<std::string> what(3);
  std::vector<int64_t> read(3, -1);
  on_ranks(3, [&](int64_t r) {
    const Agreement agreement = ranks.agreement(r);
    CheckpointReader reader(folder.path() / "step-00000001");
    const TensorRecord* w = reader.find("w", "weight");
    std::vector<double> to(1800);
    const Box row{{r == 1 ? 1400 : 7, 0}, {1, 1800}};
    try {
      reader.read_all({{w, row, DType::f64, to.data()}}, agreement);
    } catch (const Error& e) {
      what[static_cast<size_t>(r)] = e.what();
    }
    read[static_cast<size_t>(r)] = reader.cost(agreement).rank.read;
  });
  CHECK(what[1].find("a box at [1400, 0]") != std::string::npos);
  for (const size_t r : {0, 2}) CHECK(what[r].find("another rank cannot say") != std::string::npos);
  CHECK(read == std::vector<int64_t>{0, 0, 0});
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
