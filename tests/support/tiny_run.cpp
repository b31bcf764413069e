// tests/support/tiny_run.cpp -- see the header.
#include "support/tiny_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/hash.h"
#include "checkpoint/boxes.h"
#include "checkpoint/verify.h"
#include "support/needed_blocks.h"
#include "trainer/rank_agreement.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {

void StateGatherer::add(const StateCatalog& catalog) {
  const std::lock_guard lock(mutex_);
  for (const StateEntry& e : catalog) {
    const auto width = static_cast<size_t>(size_of(e.local.dtype()));
    const auto elements = static_cast<size_t>(e.shape.numel());
    Gathered& g = tensors_[{e.name, e.role}];
    if (g.bytes.empty()) {
      g.bytes.resize(elements * width);
      g.holders.resize(elements);
      g.owners.resize(elements);
    }
    const auto* local = static_cast<const char*>(e.local.data());
    for_each_run(e.box, trainctl::whole(e.shape), e.box, [&](int64_t global, int64_t mine, int64_t count) {
      const auto first = static_cast<size_t>(global), n = static_cast<size_t>(count);
      char* known = g.bytes.data() + first * width;
      const char* here = local + static_cast<size_t>(mine) * width;
      for (size_t i = 0; i < n; ++i) {
        if (g.holders[first + i] == 0)
          std::memcpy(known + i * width, here + i * width, width);
        else if (std::memcmp(known + i * width, here + i * width, width) != 0 && disagreement_.empty())
          disagreement_ =
              fmt::format("{} ({}): element {} differs between two ranks that hold it", e.name, e.role, first + i);
        ++g.holders[first + i];
        g.owners[first + i] = static_cast<uint8_t>(g.owners[first + i] + (e.owner ? 1 : 0));
      }
    });
  }
}

WholeState StateGatherer::whole() const {
  const std::lock_guard lock(mutex_);
  if (!disagreement_.empty()) throw std::runtime_error(disagreement_);
  WholeState state;
  for (const auto& [key, g] : tensors_) {
    for (size_t i = 0; i < g.owners.size(); ++i)
      if (g.owners[i] != 1)
        throw std::runtime_error(fmt::format("{} ({}): element {} is held by {} ranks and owned by {}", key.first,
                                             key.second, i, g.holders[i], g.owners[i]));
    state[key] = g.bytes;
  }
  return state;
}

std::filesystem::path RunRecord::saved(int64_t step) const {
  for (const SaveOutcome& o : saves) {
    if (o.step != step) continue;
    if (!o.ok) throw std::runtime_error(fmt::format("step {} was not saved: {}", step, o.reason));
    return o.folder;
  }
  throw std::runtime_error(fmt::format("step {} was not saved", step));
}

namespace {

bool has(const std::vector<int64_t>& steps, int64_t step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

StateEntry ballast(Arena& arena, int64_t bytes) {
  StateEntry e;
  e.name = "ballast";
  e.role = "buffer";
  e.shape = {bytes / 8};
  e.box = trainctl::whole(e.shape);
  e.local = Tensor(arena, e.shape, DType::f64, MemoryCategory::other);
  std::memset(e.local.data(), 1, static_cast<size_t>(bytes));
  return e;
}

CheckpointerOptions checkpointer_options(Engine& engine, const Recipe& recipe, const std::filesystem::path& folder) {
  const std::vector<std::string> hosts(static_cast<size_t>(engine.world->size()), "one");
  CheckpointerOptions o = options_for(folder, rank_agreement(engine, hosts));
  o.run_id = recipe.name;
  return o;
}

ScalarState scalars_after(const Recipe& recipe, int64_t step, double loss, double norm) {
  ScalarState s;
  s.step = step;
  s.consumed_samples = step * recipe.runtime.global_batch_size.value();
  s.consumed_tokens = s.consumed_samples * recipe.data.sequence_tokens;
  s.last_loss = loss;
  s.last_grad_norm = norm;
  s.seed = recipe.runtime.seed;
  s.data_fingerprint = "synthetic";
  return s;
}

// Puts together what the ranks loaded.
class LoadCounter {
 public:
  void add(const RestoreResult& found, const StateCatalog& catalog) {  // from any rank's thread
    const CheckpointReader reader(found.folder);
    const BlockSet mine = needed_blocks(reader, catalog);
    const std::lock_guard lock(mutex_);
    load_.read += found.cost.rank.read;
    load_.received += found.cost.rank.received;
    load_.needed += bytes_of_blocks(reader.manifest(), mine);
    needed_.insert(mine.begin(), mine.end());
    load_.needed_once = bytes_of_blocks(reader.manifest(), needed_);
    load_.stored = found.cost.stored;
  }
  NodeLoad load() const { return load_; }

 private:
  std::mutex mutex_;
  NodeLoad load_;
  BlockSet needed_;
};

}  // namespace

RunRecord run_tiny(const Recipe& recipe, const RunPlan& plan) {
  RunRecord record;
  LoadCounter counter;
  std::map<int64_t, StateGatherer> gathered;
  for (const int64_t step : plan.look_after) gathered[step];
  const int world = mesh_of(recipe.parallelism).world_size();
  run_ranks(world, recipe.parallelism.message_chunk_bytes, [&](int rank, std::unique_ptr<Collectives> collectives) {
    SyntheticSource source(recipe.model.vocab.value.value(), recipe.data.sequence_tokens, false);
    auto engine = assemble(recipe, {.device = make_cpu_device(),
                                    .kernels = kernels::cpu_kernels(),
                                    .collectives = std::move(collectives),
                                    .source = &source,
                                    .on_place = {}});
    const StateCatalog catalog = engine->catalog();
    StateCatalog saved = catalog;
    if (rank == 0 && plan.ballast_bytes > 0) saved.insert(saved.begin(), ballast(*engine->arena, plan.ballast_bytes));
    Checkpointer checkpointer = build_checkpointer(
        recipe.checkpoint, checkpointer_options(*engine, recipe, plan.folder), *engine->arena, saved);
    engine->runtime->before_update([&checkpointer] { checkpointer.wait_copied(); });
    StepReport report;
    int64_t done = 0;
    const auto look_and_save = [&] {
      if (has(plan.look_after, done)) gathered.at(done).add(catalog);
      if (has(plan.save_after, done))
        checkpointer.save(saved, scalars_after(recipe, done, report.loss, report.grad_norm), plan.reason);
    };
    if (plan.resume.empty()) {
      initialise_weights(engine->model, static_cast<uint64_t>(recipe.runtime.seed));
    } else {
      const RestoreResult found = checkpointer.restore(saved, plan.resume);
      counter.add(found, saved);
      done = found.step;
      report.loss = found.scalars.last_loss;
      report.grad_norm = found.scalars.last_grad_norm;
    }
    look_and_save();
    refresh_compute_weights(engine->model);
    while (done < plan.last_step) {
      report = engine->runtime->step(++done);
      if (rank == 0) {
        record.losses[done] = report.loss;
        record.norms[done] = report.grad_norm;
      }
      look_and_save();
    }
    std::vector<SaveOutcome> saves = checkpointer.wait();
    if (rank == 0) record.saves = std::move(saves);
    engine->world->finalize();
  });
  record.load = counter.load();
  for (const auto& [step, gatherer] : gathered) record.states[step] = gatherer.whole();
  return record;
}

std::string content_of(const std::filesystem::path& checkpoint) {
  const Manifest manifest = read_manifest(checkpoint);
  std::map<std::string, std::string> files;
  for (const FileRecord& f : manifest.files) files[f.path] = file_bytes(checkpoint / f.path);
  std::vector<std::string> lines;
  for (const TensorRecord& t : manifest.tensors) {
    const std::string tensor = fmt::format("{}|{}|{}|{}|{}|{}", t.name, t.role, name(t.dtype), to_string(t.shape),
                                           t.alias_of, t.derived_from_role);
    if (t.chunks.empty()) lines.push_back(tensor);
    for (const ChunkRecord& c : t.chunks)
      lines.push_back(fmt::format(
          "{}|{}|{}|{}|{}|{}|{}", tensor, to_string(c.box.offset), to_string(c.box.extent), c.file, c.key,
          c.byte_offset, xxh128_hex(files.at(c.file).data() + c.byte_offset, static_cast<size_t>(c.byte_length))));
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace trainctl::testing
