// tests/unit/checkpoint/reading_test.cpp -- what a rank that shares with nobody reads: the blocks its boxes need, each
// once.
#include <set>

#include "checkpoint/checkpoint_reader.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

std::vector<GlobalTensor> wide_model(int split) {  // about 40 MB
  std::vector<GlobalTensor> all;
  for (const char* name : {"a", "b"})
    for (const char* role : {"weight", "exp_avg"}) all.push_back({name, role, DType::f64, {1250, 1000}, split, ""});
  all.push_back({"scale", "weight", DType::f32, {1000}, -1, ""});
  return all;
}

struct Load {
  RestoreResult result;
  int64_t runs = 0;  // pieces of files that the rank's boxes meet
  int64_t expected_bytes = 0, local_bytes = 0;
};

// What reading `catalog` must cost, from the manifest alone: rows are contiguous in files, columns touch every block of
// a chunk (their gaps are smaller than a block).
void expect(const Manifest& manifest, const StateCatalog& catalog, Load& load) {
  std::set<std::pair<std::string, int64_t>> blocks;
  for (const StateEntry& e : catalog) {
    load.local_bytes += e.local.bytes();
    for (const TensorRecord& t : manifest.tensors)
      for (const ChunkRecord& c : t.chunks) {
        if (t.name != e.name || t.role != e.role || !intersect(c.box, e.box)) continue;
        const bool columns = e.box.extent.rank() == 2 && e.box.extent[1] != e.shape[1];
        const int64_t row = c.byte_length / c.box.extent[0];
        const int64_t first = columns ? 0 : std::max(e.box.offset[0], c.box.offset[0]) - c.box.offset[0];
        const int64_t last =
            columns ? c.box.extent[0]
                    : std::min(e.box.offset[0] + e.box.extent[0], c.box.offset[0] + c.box.extent[0]) - c.box.offset[0];
        const int64_t begin = c.byte_offset + first * row, end = c.byte_offset + last * row;
        for (int64_t b = begin / kBlockBytes; b <= (end - 1) / kBlockBytes; ++b) blocks.insert({c.file, b});
        ++load.runs;
      }
  }
  for (const FileRecord& f : manifest.files)
    for (size_t b = 0; b < f.block_xxh128.size(); ++b)
      if (blocks.count({f.path, static_cast<int64_t>(b)}))
        load.expected_bytes += std::min(kBlockBytes, f.bytes - static_cast<int64_t>(b) * kBlockBytes);
}

std::vector<Load> loads(const fs::path& folder, int split, int64_t world) {
  std::vector<int> nodes;  // one for each rank
  for (int r = 0; r < world; ++r) nodes.push_back(r);
  ThreadWorld ranks(world, nodes);
  std::vector<Load> all(static_cast<size_t>(world));
  on_ranks(world, [&](int64_t r) {
    RankState state(wide_model(split), r, world);
    Checkpointer c = build_checkpointer({}, options_for(folder, ranks.agreement(r)), state.arena(), state.catalog);
    Load& load = all[static_cast<size_t>(r)];
    load.result = c.restore(state.catalog);
    if (const std::string d = state.difference(5); !d.empty()) throw std::runtime_error(d);
    expect(CheckpointReader(load.result.folder).manifest(), state.catalog, load);
  });
  return all;
}

void save_wide(const fs::path& folder, int64_t world) {
  ThreadWorld ranks(world);
  on_ranks(world, [&](int64_t r) {
    RankState state(wide_model(0), r, world);
    state.fill(5);
    Checkpointer c = build_checkpointer({}, options_for(folder, ranks.agreement(r)), state.arena(), state.catalog);
    c.save(state.catalog, scalars_at(1), SaveReason::interval);
    for (const SaveOutcome& o : c.wait())
      if (!o.ok) throw std::runtime_error(o.reason);
  });
}

}  // namespace

TEST_CASE("a load under another layout reads each block that it needs once, and little more than it needs",
          "[checkpoint]") {
  struct Move {
    int64_t from, to;
    int split;
  };
  std::map<int64_t, std::unique_ptr<ScratchFolder>> folders;
  for (const auto& [from, to, split] : {Move{2, 3, 0}, Move{2, 1, 0}, Move{1, 2, 0}, Move{2, 3, 1}}) {
    CAPTURE(from, to, split);
    auto& folder = folders[from];
    if (!folder) {
      folder = std::make_unique<ScratchFolder>(true);
      save_wide(folder->path(), from);
    }
    for (const Load& load : loads(folder->path(), split, to)) {
      const LoadCost::Bytes& bytes = load.result.cost.rank;
      CHECK(bytes.read == load.expected_bytes);
      CHECK(bytes.received == 0);
      CHECK(bytes.needed == load.local_bytes);
      if (split == 0)
        CHECK(static_cast<double>(bytes.read) <=
              1.25 * static_cast<double>(bytes.needed) + static_cast<double>(2 * kBlockBytes * load.runs));
    }
  }
}

TEST_CASE("requests that share blocks share the reading; neighbours asked for later find them in memory",
          "[checkpoint]") {
  ScratchFolder folder;
  save_once(folder.path(), 1, 1, 4);
  CheckpointReader reader(folder.path() / "step-00000001");
  int64_t files = 0;
  for (const FileRecord& f : reader.manifest().files) files += f.bytes;
  for (int again = 0; again < 2; ++again) {
    for (const TensorRecord& t : reader.manifest().tensors) {
      std::vector<char> bytes(static_cast<size_t>(t.shape.numel() * size_of(t.dtype)) + 8);
      reader.read(t, whole(t.shape), t.dtype, bytes.data());
    }
    CHECK(reader.cost().rank.read == files);  // all of it, once
  }
}

}  // namespace trainctl::testing
