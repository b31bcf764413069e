// lib/checkpoint/checkpointer.cpp -- saving: agreement, staging, one writer thread at a time.
#include "checkpoint/checkpointer.h"

#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/admission.h"
#include "checkpoint/checkpointer_state.h"
#include "checkpoint/scan.h"

namespace trainctl {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// "word\nfirst\nsecond" -> the part after the n-th newline, up to the next.
std::string line_of(const std::string& text, int n) {
  size_t begin = 0;
  for (int i = 0; i < n; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

std::string_view name(SaveReason reason) {
  switch (reason) {
    case SaveReason::interval:
      return "interval";
    case SaveReason::signal:
      return "signal";
    case SaveReason::final:
      return "final";
    case SaveReason::emergency:
      return "emergency";
  }
  return "?";
}

Checkpointer::State::State(const CheckpointConfig& config, CheckpointerOptions options, Arena& arena,
                           const StateCatalog& catalog)
    : config_(config), options_(std::move(options)), arena_(arena) {
  ensure(options_.agreement.world >= 1 && options_.agreement.rank >= 0 &&
             options_.agreement.rank < options_.agreement.world,
         "a checkpointer's rank lies outside its world");
  parent_ = options_.parent;
  staging_ = std::make_unique<StagingArea>(arena_, catalog, options_.agreement.rank);
}

Checkpointer::State::~State() {
  cancelled_ = true;
  if (writer_.joinable()) writer_.join();
}

bool Checkpointer::State::in_flight() {
  if (!writer_.joinable()) return false;
  if (!done_) return true;
  finish();
  return false;
}

void Checkpointer::State::finish() {
  if (!writer_.joinable()) return;
  writer_.join();
  if (current_.ok) {
    saved_step_ = current_.step;
    if (!current_manifest_.empty()) parent_ = current_manifest_;
  }
  report(std::exchange(current_, {}));
}

std::vector<SaveOutcome> Checkpointer::State::poll() {
  in_flight();
  return std::exchange(outcomes_, {});
}

std::vector<SaveOutcome> Checkpointer::State::wait() {
  finish();
  return std::exchange(outcomes_, {});
}

std::string Checkpointer::State::decide(int64_t step, int64_t bytes) {
  if (saved_step_ == step && inspect_folder(options_.folder / folder_name_of(step)).state == CheckpointState::usable)
    return fmt::format("done\n{}", step);
  const Admission admission =
      admit_save(options_.folder, step, bytes, options_.free_space_margin_bytes, options_.ballast_bytes);
  return admission.go ? fmt::format("go\n{}\n{}", step, admission.attempt)
                      : fmt::format("no\n{}\n{}", step, admission.reason);
}

void Checkpointer::State::save(const StateCatalog& catalog, const ScalarState& scalars, SaveReason reason) {
  const Agreement& ranks = options_.agreement;
  const Clock::time_point start = Clock::now();
  SaveOutcome outcome;
  outcome.step = scalars.step;
  outcome.folder = options_.folder / folder_name_of(scalars.step);
  const auto end_here = [&](bool ok, bool skipped, std::string why) {
    outcome.ok = ok;
    outcome.skipped = skipped;
    outcome.reason = std::move(why);
    outcome.total_s = seconds_since(start);
    report(std::move(outcome));
  };
  if (reason != SaveReason::interval) finish();
  if (!ranks.all_agree(!in_flight()))
    return end_here(false, true, "the previous save is still being written (on this or another rank)");
  if (catalog_fingerprint(catalog) != staging_->fingerprint()) {
    staging_.reset();  // before the new one: both would not fit
    staging_ = std::make_unique<StagingArea>(arena_, catalog, ranks.rank);
  }
  outcome.bytes = staging_->plan().image_bytes;
  const int64_t total = ranks.sum(outcome.bytes);
  const std::string word = ranks.broadcast_from_rank0(ranks.rank == 0 ? decide(scalars.step, total) : std::string());
  const bool same_step = line_of(word, 1) == std::to_string(scalars.step);
  const std::string verdict = line_of(word, 0), detail = line_of(word, 2);
  if (!ranks.all_agree(same_step))
    return end_here(false, false, "the ranks are not at the same step; this is a bug of the training loop");
  if (verdict == "done") return end_here(true, true, "this step is already saved");
  if (verdict != "go") return end_here(false, true, detail);

  SaveJob job;
  job.root = options_.folder;
  job.run_id = options_.run_id;
  job.attempt = detail;
  job.reason = name(reason);
  job.parent = parent_;
  job.topology = options_.topology;
  job.provenance = options_.provenance;
  job.step = scalars.step;
  job.rank = ranks.rank;
  job.world = ranks.world;
  job.scalars = scalars;
  job.deadline_s = config_.deadline_s;
  job.keep = config_.keep;
  job.on_point = options_.on_point;
  job.cancelled = &cancelled_;
  const Clock::time_point copy_start = Clock::now();
  const std::string fault = staging_->stage(catalog, options_.copy_threads);
  outcome.staging_s = seconds_since(copy_start);
  current_ = std::move(outcome);
  done_ = false;
  writer_ = std::thread([this, job = std::move(job), fault, start] { write(job, fault, start); });
  if (!config_.async) finish();
}

void Checkpointer::State::write(const SaveJob& job, const std::string& fault, Clock::time_point start) {
  current_manifest_.clear();
  try {
    try {
      write_shards(job, *staging_, fault);
    } catch (const std::exception& e) {
      fail(ErrorKind::checkpoint, fmt::format("rank {}: {}", job.rank, e.what()));
    }
    if (job.rank == 0) {
      const CommitResult result = commit_attempt(job);
      current_manifest_ = result.manifest_sha256;
      current_.reason = result.note;
    } else {
      await_commit(job);
    }
    current_.ok = true;
  } catch (const std::exception& e) {
    current_.reason = e.what();
    if (job.rank == 0) abandon_attempt(job, current_.reason);
    // A file that vanished under a writer is a consequence; the cause is what rank 0 said.
    if (job.rank != 0)
      if (const std::string why = abandoned_reason(job); !why.empty()) current_.reason = why;
  }
  current_.total_s = seconds_since(start);
  done_ = true;
}

Checkpointer::Checkpointer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;
Checkpointer& Checkpointer::operator=(Checkpointer&&) noexcept = default;
Checkpointer::~Checkpointer() = default;

bool Checkpointer::due(int64_t step) const { return state_->due(step); }
void Checkpointer::save(const StateCatalog& catalog, const ScalarState& scalars, SaveReason reason) {
  state_->save(catalog, scalars, reason);
}
std::vector<SaveOutcome> Checkpointer::poll() { return state_->poll(); }
std::vector<SaveOutcome> Checkpointer::wait() { return state_->wait(); }
RestoreResult Checkpointer::restore(const StateCatalog& catalog, const std::string& from, bool allow_intermediate) {
  return state_->restore(catalog, from, allow_intermediate);
}
std::vector<std::filesystem::path> Checkpointer::leave_later_steps() { return state_->leave_later_steps(); }

Checkpointer build_checkpointer(const CheckpointConfig& config, CheckpointerOptions options, Arena& arena,
                                const StateCatalog& catalog) {
  return Checkpointer(std::make_unique<Checkpointer::State>(config, std::move(options), arena, catalog));
}

}  // namespace trainctl
