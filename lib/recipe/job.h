// lib/recipe/job.h -- launch.json: the only thing a worker reads. Written by the launcher, checked by every rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace trainctl {

// One rank's entry in launch.json.
struct JobRank {
  int64_t rank = 0;
  std::string host{};
  int64_t local_rank = 0;
  int64_t device = 0;
  std::vector<int64_t> coordinates{};  // tensor, context, expert, data, pipeline
  void describe(ConfigVisitor& v);
};

// The checkpoint whose weights a run starts from instead of random ones; empty folder: none.
struct InitFrom {
  std::string asked{};            // the path that --init-from named, absolute: a checkpoint or a run
  std::string folder{};           // of the checkpoint, absolute
  std::string manifest_sha256{};  // what was found there when the run was first launched
  std::string kind{};
  int64_t step = 0;  // of the run that it belongs to; 0 for imported weights
  void describe(ConfigVisitor& v);
};

// Samples to pass over after one checkpoint, whenever the run goes on from exactly that one; 0 batches: none.
struct SkipBatches {
  int64_t batches = 0;            // as --skip-batches said
  int64_t samples = 0;            // batches x global_batch_size at that time
  std::string manifest_sha256{};  // of the checkpoint
  int64_t step = 0;               // of the checkpoint
  void describe(ConfigVisitor& v);
};

// What the launchers of a run have seen of it: a witness beside events.jsonl, which may be lost.
struct RunRecord {
  int64_t last_step = 0;   // that was made on the branch that the run is on; 0: none
  int64_t saved_step = 0;  // of that branch's newest checkpoint; 0: none
  bool operator==(const RunRecord&) const = default;
  void describe(ConfigVisitor& v);
};

struct Job {
  std::string schema = "trainctl-launch-1";
  std::string build_id;  // of the launcher; a worker built otherwise refuses
  std::string run_dir;   // absolute
  std::string run_id{};  // of the run for good, in every manifest of its own; a renamed recipe keeps it
  std::string launcher;  // mpirun | srun | threads
  int64_t world_size = 0;
  std::vector<JobRank> ranks;  // by rank, all of them
  int64_t threads_per_rank = 1;
  std::string resume = "auto";      // auto | never | a checkpoint folder
  bool allow_intermediate = false;  // resume may name a state with infinities or NaNs
  InitFrom init_from{};             // used as long as there is no checkpoint to resume
  SkipBatches skip{};
  std::vector<SkipBatches> skipped_before{};  // asked for earlier, after older checkpoints, oldest first
  RunRecord seen{};                           // before this launch; the launcher writes it anew while the run goes on
  double peak_flops_per_rank = 0;             // from the topology file; 0: not known, MFU is then null
  std::string peak_flops_origin;              // "measured by topology discover", "typed", ...
  int64_t memory_limit_bytes_per_rank = 0;    // 0: none
  std::vector<std::string> overrides;
  Recipe recipe;  // resolved
  void describe(ConfigVisitor& v);
};

Job load_job(const std::filesystem::path& launch_json);  // throws Error{config}
void save_job(const Job& job, const std::filesystem::path& launch_json);

// Files of a run directory.
struct RunPaths {
  std::filesystem::path root;
  std::filesystem::path recipe() const { return root / "recipe.json"; }
  std::filesystem::path launch() const { return root / "launch.json"; }
  std::filesystem::path plan() const { return root / "plan.json"; }
  std::filesystem::path counters() const { return root / "counters.json"; }
  std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  std::filesystem::path samples() const { return root / "samples.jsonl"; }
  std::filesystem::path events() const { return root / "events.jsonl"; }  // what rank 0 tells: {step, level, text}
  std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  std::filesystem::path logs() const { return root / "logs"; }
  std::filesystem::path errors() const { return root / "errors"; }
  std::filesystem::path stop_request() const { return root / "stop.request"; }
  std::filesystem::path lock() const { return root / "lock"; }              // of the launcher
  std::filesystem::path ranks_lock() const { return root / "ranks.lock"; }  // shared by the processes of the ranks
  std::filesystem::path rank_log(int64_t rank) const;                       // logs/rank-00000.log
  std::filesystem::path rank_error(int64_t rank) const;                     // errors/rank-00000.json
};

// Words of a rank's log that the launcher looks for: an attempt begins; from here on the rank's own watchdog runs.
inline constexpr std::string_view kRankStartLine = "starts as rank ";
inline constexpr std::string_view kRankReadyLine = "is ready: its watchdog runs";
// The level of the event by which rank 0 says that every rank is ready.
inline constexpr std::string_view kReadyEvent = "ready";
// The level of the event whose "step" is the number of steps done before this launch.
inline constexpr std::string_view kStartEvent = "start";
// The level of the event that tells of a committed checkpoint; "step" is its step.
inline constexpr std::string_view kSavedEvent = "saved";

// errors/rank-N.json: what a rank says when it fails.
struct RankFailure {
  int64_t rank = 0;
  std::string host{};
  int64_t pid = 0;
  std::string kind{};       // name(ErrorKind)
  int64_t step = 0;         // being computed, from 1; 0: before the first
  std::string operation{};  // "forward layers.3 attention", "all_reduce in the tensor group"
  std::string message{};
  int64_t next_sample = -1;  // the first one behind that step; -1: not known
  int64_t time_ns = 0;       // wall clock
  // Hangs: the unfinished operation.
  std::string group_axis{};
  std::vector<int64_t> group_ranks{};
  int64_t sequence = -1;
  double waited_s = 0;
  std::vector<std::string> recent{};  // last operations, newest last
  void describe(ConfigVisitor& v);
};
void save_rank_failure(const RankFailure& failure, const std::filesystem::path& file);
// The report as one line of at most 4 KiB, for a rank that cannot write files (a full disk) and prints it; nullopt: the
// line is no report.
std::string line_of(RankFailure failure);
std::optional<RankFailure> rank_failure_of_line(std::string_view line);
std::vector<RankFailure> load_rank_failures(const std::filesystem::path& errors_folder);  // unreadable files skipped

}  // namespace trainctl
