// lib/trainer/train.cpp -- restore, step, report, evaluate, save.
#include "trainer/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/build_info.h"
#include "base/units.h"
#include "checkpoint/admission.h"
#include "comm/watchdog.h"
#include "kernels/common/threads.h"
#include "trainer/checkpoint_identity.h"
#include "trainer/data_cursor.h"
#include "trainer/engine.h"
#include "trainer/initial_weights.h"
#include "trainer/metrics.h"
#include "trainer/placement_check.h"
#include "trainer/rank_agreement.h"
#include "trainer/rank_report.h"
#include "trainer/recorded_recipe.h"
#include "trainer/sampler_source.h"
#include "trainer/saved_states.h"
#include "trainer/step_counts.h"

namespace trainctl {
namespace {

class RankRun {
 public:
  explicit RankRun(TrainInputs inputs)
      : job_(inputs.job),
        recipe_(job_.recipe),
        paths_{job_.run_dir},
        log_(std::move(inputs.log)),
        abort_(std::move(inputs.abort)),
        rank_(inputs.collectives->rank()),
        collectives_(std::move(inputs.collectives)) {}

  TrainEnd run() {
    try {
      check_world();
      set_up();
      const TrainEnd end = train();
      finish();
      return end;
    } catch (const std::exception& error) {
      const auto* cause = dynamic_cast<const Error*>(&error);
      if (cause && cause->kind() == ErrorKind::numeric) end_good_save();
      RankFailure failure = failure_of(error, rank_, engine_ ? &engine_->world->recorder() : nullptr);
      if (cursor_) failure.next_sample = cursor_->next_sample() + recipe_.runtime.global_batch_size.value();
      log_->error("step {}, {}: {}", failure.step, failure.operation, failure.message);
      report_failure(failure, paths_);
      abort_(exit_code(cause ? cause->kind() : ErrorKind::internal), failure.message);
      throw;
    }
  }

 private:
  bool first() const { return rank_ == 0; }

  void check_world() const {
    if (job_.build_id != build_id())
      fail(ErrorKind::environment,
           fmt::format("the plan was made by build {}, but this worker is build {}; start the worker that was built "
                       "with the launcher",
                       job_.build_id, build_id()));
    if (recipe_.runtime.device != "cpu")
      fail(ErrorKind::environment, fmt::format("runtime.device is \"{}\", but this build has no {} backend",
                                               recipe_.runtime.device, recipe_.runtime.device));
    const Coordinates c = mesh_of(recipe_.parallelism).coordinates(rank_);
    const std::vector<int64_t> here{c.tensor, c.context, c.expert, c.data, c.pipeline};
    if (job_.ranks.at(static_cast<size_t>(rank_)).coordinates != here)
      fail(ErrorKind::internal, fmt::format("rank {} has other coordinates in launch.json than in the mesh", rank_));
  }

  void set_up() {
    kernels::set_kernel_threads(static_cast<int>(job_.threads_per_rank));
    log_->info("{}{} of {} on {}, pid {}, {} threads, kernels {}, build {}", kRankStartLine, rank_, job_.world_size,
               host_name(), getpid(), job_.threads_per_rank, kernels::cpu_vector_level(), build_id());
    sampler_.emplace(recipe_.data, recipe_.runtime.seed, recipe_.model.vocab.value.value());
    source_.emplace(*sampler_);
    cursor_.emplace(job_, *sampler_);
    engine_ = assemble(recipe_, {.device = make_cpu_device(),
                                 .kernels = kernels::cpu_kernels(),
                                 .collectives = std::move(collectives_),
                                 .source = &*source_,
                                 .memory_limit_bytes = job_.memory_limit_bytes_per_rank,
                                 .on_place = {}});
    counts_.emplace(*engine_);
    watchdog_ = start_watchdog();
    log_->info("{}", kRankReadyLine);
    warn_about_shared_cores();  // the first operation of all ranks: when it is done every watchdog runs
    tell(kReadyEvent, "all ranks watch over their operations");
    checkpointer_.emplace(
        build_checkpointer(recipe_.checkpoint, checkpointer_options(), *engine_->arena, engine_->catalog()));
    engine_->runtime->before_update([this] { checkpointer_->wait_copied(); });
    done_steps_ = restore();
    tell(kStartEvent, fmt::format("{} done before", counted(done_steps_, "step")));
    engine_->runtime->start_at(done_steps_ + 1, cursor_->next_sample());
    if (first()) metrics_.emplace(paths_.metrics(), make_room());
    if (first() && recipe_.data.log_samples) samples_.emplace(paths_.samples(), false, make_room());
  }

  LineWriter::MakeRoom make_room() {
    return [this] { return room_was_made_ = give_up_ballast(paths_.checkpoints()); };
  }

  // Into this rank's log; rank 0's also go to the launcher, which shows them at once.
  void tell(std::string_view level, const std::string& text, std::optional<int64_t> step = {}) {
    log_->log(level == "warning" ? spdlog::level::warn : spdlog::level::info, "{}", text);
    if (!first()) return;
    if (!events_) events_.emplace(paths_.events(), false, make_room());
    events_->line(
        nlohmann::ordered_json{{"step", step.value_or(done_steps_)}, {"level", level}, {"text", text}}.dump());
  }

  void warn_about_shared_cores() {
    const auto places = engine_->world->gather_text(place_text(), *engine_->stream);
    for (const std::string& clash : shared_cores(places)) tell("warning", clash);
  }

  std::unique_ptr<Watchdog> start_watchdog() {
    return std::make_unique<Watchdog>(
        engine_->world->recorder(), recipe_.runtime.watchdog_s, [this](const HangReport& report) {
          RankFailure f = failure_of(Error(ErrorKind::hang, report.text()), rank_, &engine_->world->recorder());
          if (report.operation) {
            f.group_axis = report.operation->axis;
            f.group_ranks.assign(report.operation->ranks.begin(), report.operation->ranks.end());
            f.sequence = report.operation->sequence;
          }
          f.waited_s = report.waited_s;
          report_failure(f, paths_);
          log_->error("step {}, {}: {}", f.step, f.operation, f.message);
          // The other waiting ranks report too, at about this time: the launcher needs all reports to find the late
          // one.
          std::this_thread::sleep_for(std::chrono::seconds(1));
          abort_(exit_code(ErrorKind::hang), f.message);
        });
  }

  Agreement agreement() {
    std::vector<std::string> hosts;
    for (const JobRank& r : job_.ranks) hosts.push_back(r.host);
    return rank_agreement(*engine_, hosts);
  }

  CheckpointerOptions checkpointer_options() {
    CheckpointerOptions o;
    o.folder = paths_.checkpoints();
    o.run_id = job_.run_id;
    o.parent = job_.init_from.manifest_sha256;
    describe_run(job_, *sampler_, o);
    o.copy_threads = static_cast<int>(job_.threads_per_rank);
    o.agreement = agreement();
    o.judge = [this](const Manifest& manifest) {
      told_ = compare_recorded_model(manifest, recipe_.model).told;
      return judge_recorded_recipe(manifest, recipe_);
    };
    return o;
  }

  // metrics.jsonl and samples.jsonl as they are after `step`.
  void cut_back(int64_t step) {
    if (!first()) return;
    for (const std::string& remark :
         {keep_steps(paths_.metrics(), step, kMetricsValues),
          recipe_.data.log_samples ? keep_steps(paths_.samples(), step, kSamplesValues) : std::string()})
      if (!remark.empty()) tell("warning", remark);
  }

  // Of step 0: random, or those of another checkpoint; optimizer, data and schedule start anew in both cases.
  void first_weights() {
    cursor_->begin();
    const InitFrom& from = job_.init_from;
    if (from.folder.empty()) {
      initialise_weights(engine_->model, static_cast<uint64_t>(recipe_.runtime.seed));
      return cut_back(0);
    }
    engine_->context->place("load initial weights");
    const Watchdog::Extension longer(*watchdog_, 0, "loading initial weights");
    log_loaded(load_initial_weights(from, engine_->model, *engine_->device, agreement()));
    cut_back(0);
    tell("note", fmt::format("starts from the weights of {} ({}, step {})", from.folder, from.kind, from.step));
  }

  // Returns the steps already done.
  int64_t restore() {
    if (job_.resume == "never") {
      first_weights();
      return 0;
    }
    engine_->context->place("restore a checkpoint");
    const Watchdog::Extension longer(*watchdog_, 0, "restoring a checkpoint");
    const RestoreResult found = checkpointer_->restore(engine_->catalog(), job_.resume, job_.allow_intermediate);
    for (const std::string& why : found.rejected) tell("warning", "checkpoint not used: " + why);
    if (!found.found) {
      const std::string lost = engine_->broadcast_text(first() ? lost_states(paths_, job_.seen) : "");
      if (!lost.empty()) fail(ErrorKind::checkpoint, lost);
      for (const std::string& remark : anew_remarks(paths_, job_.seen)) tell("warning", remark);
      first_weights();
      return 0;
    }
    if (job_.resume == "auto")
      if (const std::string newer = newer_than_found(paths_, job_.seen, found); !newer.empty()) tell("warning", newer);
    const std::vector<DataRemark> remarks = cursor_->resume(found);
    refresh_compute_weights(engine_->model);
    // Before metrics.jsonl is cut back to this step: a crash in between must not lead back to the branch that was left.
    for (const std::filesystem::path& left : checkpointer_->leave_later_steps())
      tell("note", fmt::format("{0} is beyond that step and marked unusable (superseded); to take it back: trainctl "
                               "checkpoint mark usable {0}",
                               left.string()));
    tell("note", fmt::format("continues after step {} from {}", found.step, found.folder.string()));
    for (const std::string& difference : told_)
      tell("warning", difference + ": the weights now compute another function");
    if (first()) {
      std::error_code unknown;
      cut_back(found.step);
      const bool own = std::filesystem::equivalent(found.folder.parent_path(), paths_.checkpoints(), unknown);
      for (const std::string& remark : metrics_remarks(paths_.metrics(), found.step, found.scalars.last_loss, own))
        tell("warning", remark);
    }
    for (const DataRemark& remark : remarks) tell(remark.warning ? "warning" : "note", remark.text);
    log_loaded(found.cost);
    return found.step;
  }

  void log_loaded(const LoadCost& cost) {
    log_->info("loaded {}: {} read from disk{}, {} handed over by ranks of this host", human_bytes(cost.rank.needed),
               human_bytes(cost.rank.read), cost.io_path.empty() ? "" : " (" + cost.io_path + ")",
               human_bytes(cost.rank.received));
    if (first() && job_.world_size > 1)
      log_->info("all ranks loaded {}: {} ({} bytes) read from disk, of {} ({} bytes) in the checkpoint's data files",
                 human_bytes(cost.world.needed), human_bytes(cost.world.read), cost.world.read,
                 human_bytes(cost.stored), cost.stored);
  }

  TrainEnd train() {
    const int64_t steps = recipe_.runtime.steps;
    for (int64_t step = done_steps_ + 1; step <= steps; ++step) {
      counts_->begin();
      const StepReport report = engine_->runtime->step(step);
      bool stop = engine_->any_rank_asks(stop_is_requested() || saves_keep_failing());
      if (!counts_->end()) log_->warn("step {} sent or computed another amount than the steps before it", step);
      last_ = report;
      done_steps_ = step;
      cursor_->advance();
      log_step(report);
      if (recipe_.runtime.eval_every_steps > 0 && (step % recipe_.runtime.eval_every_steps == 0 || step == steps))
        evaluate(step);
      if (stop && recipe_.checkpoint.stop_after_failures > 0) {  // which of the two was it?
        if (engine_->any_rank_asks(saves_keep_failing())) give_up_saving();
        stop = engine_->any_rank_asks(stop_is_requested());
      }
      const bool last = step == steps;
      if (stop && !last)
        save(SaveReason::signal);
      else if (last && recipe_.checkpoint.at_end)
        save(SaveReason::final);
      else if (checkpointer_->due(step))
        save(SaveReason::interval);
      log_saves(checkpointer_->poll());
      if (stop && !last) return end_saves() ? TrainEnd::stopped : throw_unsaved();
    }
    if (!end_saves() && recipe_.checkpoint.at_end) throw_unsaved();
    return TrainEnd::completed;
  }

  void log_step(const StepReport& r) {
    log_->info("step {} loss {:.6f} norm {:.4f} lr {:.3e} {:.3f} s", r.step, r.loss, r.grad_norm, r.lr, r.step_s);
    if (r.skipped) log_->warn("step {} had no token to learn from and left the weights alone", r.step);
    if (metrics_ || samples_) engine_->context->place("write metrics");
    if (metrics_)
      metrics_->step(r, cursor_->consumed_tokens(), model_flops_per_step(),
                     job_.peak_flops_per_rank * static_cast<double>(job_.world_size),
                     engine_->arena->counters().peak_total);
    if (samples_)
      samples_->line(sample_line(*sampler_, r.step, r.first_sample, recipe_.runtime.global_batch_size.value()));
    if (std::exchange(room_was_made_, false))
      tell("warning", fmt::format("the disk of {} is full: the reserve of the checkpoints was given up for it; free "
                                  "some space, or the run ends when that is full too",
                                  paths_.root.string()));
  }

  void evaluate(int64_t step) {
    const double loss = engine_->runtime->evaluate();
    log_->info("step {} validation loss {:.6f}", step, loss);
    if (metrics_) metrics_->evaluation(step, loss);
  }

  void save(SaveReason reason) {
    const Watchdog::Extension longer(*watchdog_, save_limit_s(), "saving a checkpoint");
    engine_->context->place("save a checkpoint");
    ScalarState s;
    s.step = done_steps_;
    s.last_loss = last_.loss;
    s.last_grad_norm = last_.grad_norm;
    cursor_->record(s);
    checkpointer_->save(engine_->catalog(), s, reason);
  }

  // A save has its own deadline, which ends with a failed save; the watchdog is behind it.
  double save_limit_s() const { return 2 * recipe_.checkpoint.deadline_s + recipe_.runtime.watchdog_s; }

  // A loss that is no number ends the run, and a save that is still in flight is of a state before: it is what the run
  // will go on from. Every rank meets that loss; where one does not, the writer threads still meet through files.
  void end_good_save() noexcept {
    if (!checkpointer_ || !watchdog_) return;
    try {
      const Watchdog::Extension longer(*watchdog_, save_limit_s(), "waiting for a checkpoint");
      log_saves(checkpointer_->wait());
    } catch (const std::exception& e) {
      log_->error("{}", e.what());
    }
  }

  // True when the newest state that was to be saved is on disk.
  bool end_saves() {
    const Watchdog::Extension longer(*watchdog_, save_limit_s(), "waiting for a checkpoint");
    engine_->context->place("wait for the checkpoint");
    log_saves(checkpointer_->wait());
    return !engine_->any_rank_asks(last_save_failed_);
  }

  void log_saves(const std::vector<SaveOutcome>& outcomes) {
    for (const SaveOutcome& o : outcomes) {
      last_save_failed_ = !o.ok;
      if (o.ok) failed_saves_ = 0;
      if (!o.ok && !o.busy) ++failed_saves_, save_failure_ = o.reason;
      if (o.ok)
        tell(kSavedEvent, text_of(o), o.step);
      else
        tell("warning", text_of(o));
    }
  }

  bool stop_is_requested() const { return first() && std::filesystem::exists(paths_.stop_request()); }

  bool saves_keep_failing() const {
    const int64_t limit = recipe_.checkpoint.stop_after_failures;
    return limit > 0 && failed_saves_ >= limit;
  }

  // All ranks. Returns when the save that was still in flight ended the row of failures.
  void give_up_saving() {
    end_saves();
    if (!engine_->any_rank_asks(saves_keep_failing())) return;
    const std::string why = engine_->broadcast_text(save_failure_);
    fail(ErrorKind::environment,
         fmt::format("{} saves in a row failed (checkpoint.stop_after_failures): {}; older checkpoints stand",
                     failed_saves_, why));
  }

  [[noreturn]] TrainEnd throw_unsaved() {
    fail(ErrorKind::environment,
         fmt::format("the state after step {} could not be saved; the log has the reason, older checkpoints stand",
                     done_steps_));
  }

  int64_t model_flops_per_step() const {
    return model_flops(recipe_.model, recipe_.runtime.global_batch_size.value(), recipe_.data.sequence_tokens);
  }

  void finish() {
    engine_->context->place("gather counters");
    if (const auto run = counts_->gather(model_flops_per_step(), job_.memory_limit_bytes_per_rank))
      write_file_atomically(behind_links(paths_.counters()), to_json(*run).dump(1) + "\n");
    watchdog_.reset();
    engine_->world->finalize();
  }

  const Job& job_;
  const Recipe& recipe_;
  RunPaths paths_;
  Logger log_;
  std::function<void(int, const std::string&)> abort_;
  int rank_;
  std::unique_ptr<Collectives> collectives_;
  std::optional<Sampler> sampler_;
  std::optional<SamplerSource> source_;
  std::optional<DataCursor> cursor_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<Checkpointer> checkpointer_;
  std::optional<MetricsFile> metrics_;
  std::optional<LineWriter> samples_, events_;
  std::optional<StepCounts> counts_;
  StepReport last_;
  int64_t done_steps_ = 0;
  bool last_save_failed_ = false;
  int64_t failed_saves_ = 0;  // in a row
  std::string save_failure_;
  bool room_was_made_ = false;     // on a full disk, for a line of this step
  std::vector<std::string> told_;  // by the checkpoint that is restored: its model, where it may differ
};

}  // namespace

TrainEnd train_rank(TrainInputs inputs) { return RankRun(std::move(inputs)).run(); }

}  // namespace trainctl
