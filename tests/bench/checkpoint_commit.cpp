// tests/bench/checkpoint_commit.cpp -- what a save costs beside its data: agreeing (S1), gathering receipts and making
// the manifest (S7, S8), for many tensors on several ranks.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "checkpoint/verify.h"
#include "checkpoint_bench.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::bench {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kRanks = 8, kTensors = 10'000;  // logical ones, roles counted

// f32 weights and two moments of 8 x 8 elements; `cut`: every rank holds rows of each, else each lies on one rank.
class ManyTensors : public OwnedCatalog {
 public:
  ManyTensors(int64_t rank, bool cut) {
    int64_t made = 0;
    for (int64_t t = 0; made < kTensors; ++t)
      for (const char* role : {"weight", "exp_avg", "exp_avg_sq"}) {
        if (made++ == kTensors) break;
        if (!cut && t % kRanks != rank) continue;
        StateEntry e;
        e.name = fmt::format("layers.{}.attention.q.weight", t);
        e.role = role;
        e.shape = {8, 8};
        e.box = cut ? Box{{rank, 0}, {1, 8}} : Box{{0, 0}, {8, 8}};
        e.local = Tensor(arena(), e.box.extent, DType::f32, MemoryCategory::weights);
        for (int64_t i = 0; i < e.local.numel(); ++i)
          static_cast<float*>(e.local.data())[i] = static_cast<float>(made * 64 + rank * 8 + i);
        catalog_.push_back(std::move(e));
      }
  }
};

struct Moments {
  std::mutex mutex;
  double last_receipt = 0, gathered = 0, manifest = 0;
  double call = 0, plan = 0;  // of rank 0, which comes last to a save: its retention follows the commit
};

}  // namespace

void bench_commit(const CheckpointBenchOptions& o) {
  for (const bool cut : {true, false}) {
    const int saves = 1 + std::max(2, o.repeats);
    std::vector<Moments> moments(static_cast<size_t>(saves));
    testing::ThreadWorld ranks(kRanks);
    const fs::path folder = o.folder / "run";
    testing::on_ranks(kRanks, [&](int64_t rank) {
      ManyTensors state(rank, cut);
      CheckpointConfig config;
      config.keep = 1;
      config.io = o.io;
      size_t save = 0;
      CheckpointerOptions options = testing::options_for(folder, ranks.agreement(rank));
      options.on_point = [&](SavePoint point) {
        Moments& m = moments[save];
        const std::lock_guard lock(m.mutex);
        if (point == SavePoint::receipt) m.last_receipt = std::max(m.last_receipt, now_s());
        if (point == SavePoint::gathered) m.gathered = now_s();
        if (point == SavePoint::manifest) m.manifest = now_s();
      };
      double start = now_s();
      Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog());
      if (rank == 0) moments[0].plan = now_s() - start;
      for (; save < moments.size(); ++save) {
        start = now_s();
        c.save(state.catalog(), testing::scalars_at(static_cast<int64_t>(save) + 1), SaveReason::final);
        const double call = now_s() - start;
        const std::vector<SaveOutcome> outcomes = c.wait();
        if (outcomes.size() != 1 || !outcomes[0].ok) fail(ErrorKind::internal, "not saved: " + outcomes.at(0).reason);
        if (rank == 0) moments[save].call = call - outcomes[0].staging_s;
      }
    });
    const fs::path last = folder / folder_name_of(saves);
    if (const VerifyReport report = verify_checkpoint(last, true); !report.whole())
      fail(ErrorKind::internal, report.faults.front());
    if (std::ssize(read_manifest(last).tensors) != kTensors)
      fail(ErrorKind::internal, "the manifest does not have every tensor");
    std::vector<double> agree, gather, manifest;
    for (size_t i = 1; i < moments.size(); ++i) {
      agree.push_back(moments[i].call);
      gather.push_back(moments[i].gathered - moments[i].last_receipt);
      manifest.push_back(moments[i].manifest - moments[i].gathered);
    }
    const Moments& first = moments[0];
    fmt::print(
        "commit, {} ranks, {} tensors {}, manifest {:.1f} MB: first save: plan {:.0f} ms (at the start), S0 and S1 "
        "{:.0f} "
        "ms, S7 {:.0f} ms, S8 {:.0f} ms; later ones: S0 and S1 {:.0f} ms, S7 {:.0f} ms, S8 {:.0f} ms\n",
        kRanks, kTensors, cut ? "cut over all ranks" : "each on one rank",
        static_cast<double>(fs::file_size(last / kManifestName)) / 1e6, first.plan * 1e3, first.call * 1e3,
        (first.gathered - first.last_receipt) * 1e3, (first.manifest - first.gathered) * 1e3, median(agree) * 1e3,
        median(gather) * 1e3, median(manifest) * 1e3);
    fs::remove_all(folder);
  }
}

}  // namespace trainctl::bench
