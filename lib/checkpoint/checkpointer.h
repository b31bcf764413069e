// lib/checkpoint/checkpointer.h -- SEAM 5: saves and restores catalogs of named shards. It knows folders and catalogs,
// no model, optimizer or runtime; ranks meet through the functions in Agreement and through files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/checkpoint_config.h"
#include "checkpoint/load_cost.h"
#include "checkpoint/save_job.h"
#include "device/arena.h"
#include "tensor/catalog.h"

namespace trainctl {

// How the recipe that a manifest records differs from this run's, in the caller's words.
struct RecipeVerdict {
  bool fits = true;  // false: the state is not one of this run's model, whatever its tensors look like
  std::string differences{}, remedy{};  // "model.heads is 8 here and 4 there", "model.heads to 4"; for the message
};

struct CheckpointerOptions {
  std::filesystem::path folder;      // the run's checkpoint folder; made when it is first needed
  std::string run_id;                // the same for every rank and every resume of a run
  std::string parent{};              // manifest digest of what the run's weights came from, until it resumes; "": none
  std::string topology, provenance;  // JSON objects recorded in the manifest
  std::vector<MetaFile> meta{};      // meta/config.json, ...: what the checkpoint is, in files; rank 0's are written
  // State classes that follow from what is stored, and from what (completeness.h). A training checkpoint needs all
  // twelve: those not seen in the manifest and not declared here are absent, and the save is refused.
  std::vector<StateClass> derived{};
  int copy_threads = 1;                              // for the copy at the step boundary
  std::optional<int64_t> free_space_margin_bytes{};  // instead of free_space_margin(), for every save
  int64_t ballast_bytes = 16 << 20;                  // given up on a full disk to make room for the bad news; 0: none
  Agreement agreement;
  // Of each checkpoint that is about to be restored, before a tensor of it is read; the same on every rank.
  std::function<RecipeVerdict(const Manifest&)> judge = [](const Manifest&) { return RecipeVerdict(); };
  std::function<void(SavePoint)> on_point{};  // called in the writer thread after each protocol step
  // May put something between this module and the kernel's reads and writes of data files; see IoOptions::wrap.
  std::function<std::unique_ptr<IoQueue>(std::unique_ptr<IoQueue>)> wrap_io{};
};

enum class SaveReason : uint8_t { interval, signal, final, emergency };
std::string_view name(SaveReason reason);

// What became of one request to save. Equal on every rank as far as `ok`.
struct SaveOutcome {
  bool ok = false;
  bool skipped = false;  // nothing was attempted: a save was still in flight, no space, already there
  bool busy = false;     // of the skipped: a save was still in flight; no failure of anything
  int64_t step = 0;
  std::string reason;  // why not ok; with ok: a remark (LATEST or retention failed after the commit), usually empty
  std::filesystem::path folder;
  int64_t bytes = 0;                  // of this rank's files
  double staging_s = 0, total_s = 0;  // the copy's share of the caller's time, from the call to the commit
  double write_s = 0;                 // of this rank's files, flushed (S3 to S6)
  std::string io_path;                // how they were written: "io_uring, direct", and why not so
};

struct RestoreResult {
  bool found = false;
  int64_t step = 0;
  std::filesystem::path folder;
  std::string manifest_sha256;
  ScalarState scalars;
  std::string kind;
  std::vector<std::string> rejected;  // "<folder>: <why>", newest first
  LoadCost cost;                      // of the one that was taken
};

class Checkpointer {
 public:
  Checkpointer(Checkpointer&&) noexcept;
  Checkpointer& operator=(Checkpointer&&) noexcept;
  ~Checkpointer();  // cancels a save in flight and joins its thread; call wait() before to let it finish

  bool due(int64_t step) const;  // checkpoint.every_steps

  // Collective. Takes the state of this moment by value: scalars before it returns, tensors before it returns or (copy
  // "lazy" and `async`) in the writer thread while the caller goes on, which must then call wait_copied() before it
  // changes the first tensor of the catalog. With `async` writing happens in the writer thread. A save
  // still in flight on any rank: this one is skipped (signal and final saves wait for it instead). Never throws for a
  // failed save: the outcome comes from poll() or wait(). The catalog may differ from the one given at construction (it
  // is then planned anew). Requires the same step on every rank. Throws only what Agreement throws.
  void save(const StateCatalog& catalog, const ScalarState& scalars, SaveReason reason);

  // Returns when the tensors of the newest save are copied: from here on they may change. Not collective; nothing to
  // wait for costs a lock.
  void wait_copied();

  std::vector<SaveOutcome> poll();  // outcomes since the last call, oldest first; never blocks
  std::vector<SaveOutcome> wait();  // ends the save in flight first. Not collective.

  // Collective. `from`: "auto" takes the newest usable training checkpoint of the run's folder that is of the run
  // (run_id), falling back step by step, all ranks together; found == false when nothing was ever committed there. A
  // path (a checkpoint, a folder of checkpoints or a run directory) takes that one, or the newest usable one in it.
  // Only kind training is taken; with `allow_intermediate` also a state of kind intermediate that the path names
  // exactly. Throws Error{checkpoint} on every rank: checkpoints exist and none can be used; the path has none; a
  // tensor does not fit (names, shapes and dtypes are listed), no rank takes the tensors of a stored role (the moments
  // of another optimizer), or the recipe is judged to be of another model. Then the catalog must not be used.
  RestoreResult restore(const StateCatalog& catalog, const std::string& from = "auto", bool allow_intermediate = false);

  // After a restore by path from an older step of the run's own folder, when the caller goes on from it: the steps
  // beyond belong to a history that the run has left. Rank 0 marks them as unusable (superseded), newest first, so that
  // "auto" never goes back to them; nothing committed is deleted, and unfinished saves that could be adopted are
  // given up. Returns their folders; nothing to do elsewhere. Not collective.
  // Throws Error{environment}: a mark could not be written.
  std::vector<std::filesystem::path> leave_later_steps();

 private:
  friend Checkpointer build_checkpointer(const CheckpointConfig&, CheckpointerOptions, Arena&, const StateCatalog&);
  class State;
  explicit Checkpointer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Takes staging_bytes(catalog) from `arena` (category other) now, and touches them; no other allocation is made later.
// `arena` must outlive the result. On a shape-only device only the accounting happens. Throws Error{config} when
// write_limit_bytes_per_s lets no save end before deadline_s.
Checkpointer build_checkpointer(const CheckpointConfig& config, CheckpointerOptions options, Arena& arena,
                                const StateCatalog& catalog);

}  // namespace trainctl
