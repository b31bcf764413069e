// lib/checkpoint/checkpointer.cpp -- saving: agreement, staging, one writer thread at a time.
#include "checkpoint/checkpointer.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/admission.h"
#include "checkpoint/attempt.h"
#include "checkpoint/checkpointer_state.h"
#include "checkpoint/readback.h"
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
  const int64_t limit = config_.write_limit_bytes_per_s, bytes = staging_->plan().image_bytes;
  if (limit > 0 && static_cast<double>(bytes) > static_cast<double>(limit) * config_.deadline_s)
    fail(ErrorKind::config,
         fmt::format("checkpoint.write_limit_bytes_per_s = {}: the {} of one rank would take {:.0f} s, and "
                     "checkpoint.deadline_s = {} ends every save before; use a limit of at least {:.0f}, or a longer "
                     "deadline",
                     limit, human_bytes(bytes), static_cast<double>(bytes) / static_cast<double>(limit),
                     config_.deadline_s, std::ceil(static_cast<double>(bytes) / config_.deadline_s)));
}

Checkpointer::State::~State() {
  cancelled_ = true;
  if (writer_.joinable()) writer_.join();
}

IoOptions Checkpointer::State::io_options() const {
  IoOptions io;
  io.use_uring = config_.io == "auto";
  io.use_direct = config_.io != "buffered";
  io.wrap = options_.wrap_io;
  return io;
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
  current_.staging_s += std::exchange(waited_s_, 0);
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

std::string Checkpointer::State::decide(int64_t step, int64_t bytes, SaveReason reason) {
  if (saved_step_ == step && inspect_folder(options_.folder / folder_name_of(step)).state == CheckpointState::usable)
    return fmt::format("done\n{}", step);
  const bool last = reason != SaveReason::interval;
  const int64_t margin = options_.free_space_margin_bytes.value_or(last ? 0 : free_space_margin(bytes));
  const Admission admission =
      admit_save(options_.folder, step, bytes, {margin, options_.ballast_bytes, last}, options_.run_id);
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
  outcome.busy = !ranks.all_agree(!in_flight());
  if (outcome.busy) return end_here(false, true, "the previous save is still being written (on this or another rank)");
  if (catalog_fingerprint(catalog) != staging_->fingerprint()) {
    staging_.reset();  // before the new one: both would not fit
    staging_ = std::make_unique<StagingArea>(arena_, catalog, ranks.rank);
  }
  outcome.bytes = staging_->plan().image_bytes;
  const int64_t total = ranks.sum(outcome.bytes);
  const std::string word =
      ranks.broadcast_from_rank0(ranks.rank == 0 ? decide(scalars.step, total, reason) : std::string());
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
  job.meta = options_.meta;
  job.derived = options_.derived;
  job.step = scalars.step;
  job.rank = ranks.rank;
  job.world = ranks.world;
  job.scalars = scalars;
  job.deadline_s = config_.deadline_s;
  job.keep = config_.keep;
  job.io = io_options();
  job.write_limit_bytes_per_s = config_.write_limit_bytes_per_s;
  job.keep_every_steps = config_.keep_every_steps;
  job.readback = config_.verify_after_save == "readback";
  job.on_point = options_.on_point;
  job.cancelled = &cancelled_;
  const bool lazy = config_.async && config_.copy == "lazy" && reason == SaveReason::interval;
  const Clock::time_point copy_start = Clock::now();
  std::string fault;
  if (!lazy) fault = copy_now(catalog, options_.copy_threads);
  outcome.staging_s = seconds_since(copy_start);
  current_ = std::move(outcome);
  done_ = false;
  waited_s_ = 0;
  copied_ = !lazy;  // no writer thread lives: nobody else looks
  const auto shared = std::make_shared<const SaveJob>(std::move(job));
  try {
    writer_ = std::thread([this, shared, fault, start, lazy, held = lazy ? catalog : StateCatalog()]() mutable {
      if (lazy) {
        fault = copy_now(held, 1);
        held.clear();
        const std::lock_guard lock(copy_mutex_);
        copied_ = true;
        copy_done_.notify_all();
      }
      write(*shared, fault, start);
    });
  } catch (const std::system_error& e) {  // the other ranks wait for this one's word
    copied_ = true;
    write(*shared, fmt::format("no thread to write with can be made: {}", e.what()), start);
    report(std::exchange(current_, {}));
    return;
  }
  if (!config_.async) finish();
}

std::string Checkpointer::State::copy_now(const StateCatalog& catalog, int threads) {
  try {
    return staging_->stage(catalog, threads);
  } catch (const std::exception& e) {
    return e.what();
  }
}

void Checkpointer::State::wait_copied() {
  std::unique_lock lock(copy_mutex_);
  if (copied_) return;
  const Clock::time_point start = Clock::now();
  copy_done_.wait(lock, [this] { return copied_; });
  waited_s_ += seconds_since(start);
}

void Checkpointer::State::write(const SaveJob& job, const std::string& fault, Clock::time_point start) {
  current_manifest_.clear();
  std::string own;  // why this rank's part could not be written
  try {
    try {
      if (job.rank == 0) open_attempt(job);
      const Clock::time_point write_start = Clock::now();
      current_.io_path = write_shards(job, *staging_, fault);
      current_.write_s = seconds_since(write_start);
    } catch (const std::exception& e) {
      own = fmt::format("rank {}: {}", job.rank, e.what());
    }
    if (job.rank != 0) {
      await_commit(job);  // rank 0's word counts, so that all ranks report the same
      current_.reason = own;
      if (job.readback && own.empty()) read_back_own(job);
    } else {
      if (!own.empty()) fail(ErrorKind::checkpoint, own);
      const CommitResult result = commit_attempt(job, &known_plan_);
      if (!result.damage.empty()) fail(ErrorKind::checkpoint, "committed, but damaged on the disk: " + result.damage);
      current_manifest_ = result.manifest_sha256;
      current_.reason = result.note;
    }
    current_.ok = true;
  } catch (const std::exception& e) {
    std::string& reason = current_.reason = e.what();
    if (!reason.starts_with("rank ")) reason = fmt::format("rank {}: {}", job.rank, reason);
    if (reason.find(own) == std::string::npos) reason += "; " + own;
    if (job.rank == 0) abandon_attempt(job, reason);
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
void Checkpointer::wait_copied() { state_->wait_copied(); }
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
