// lib/recipe/job.cpp -- launch.json and errors/rank-N.json: fields, reading, writing.
#include "recipe/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/config_io.h"
#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr std::string_view kJobSchema = "trainctl-launch-1";
constexpr std::string_view kPrintedFailure = "trainctl_worker failure report: ";
constexpr size_t kPrintedMessageBytes = 2000;  // a line through mpirun or srun stays whole below 4 KiB

template <Describable T>
T read_strict(const JsonNode& root, const std::string& name) {
  T value;
  ConfigSource source;
  source.source = name;
  std::vector<Fault> faults;
  read_config(root, value, source, faults);
  refuse_faults(source.source, faults);
  return value;
}

template <Describable T>
T read_strict(const std::filesystem::path& path) {
  return read_strict<T>(parse_json_file(path), path.string());
}

template <Describable T>
void write_json(const T& value, const std::filesystem::path& path) {
  write_file_atomically(behind_links(path), write_config(value).dump(2) + "\n");
}

}  // namespace

void JobRank::describe(ConfigVisitor& v) {
  v.field("rank", rank, "global rank", at_least(0).required());
  v.field("host", host, "name of the machine it runs on", Rule{}.required());
  v.field("local_rank", local_rank, "index among the ranks of its host", at_least(0).required());
  v.field("device", device, "device index on its host", at_least(0));
  v.field("coordinates", coordinates, "tensor, context, expert, data, pipeline", at_least(0).with_length(5).required());
}

void InitFrom::describe(ConfigVisitor& v) {
  v.field("asked", asked, "the path that --init-from named");
  v.field("folder", folder, "checkpoint whose weights the run starts from; empty: none");
  v.field("manifest_sha256", manifest_sha256, "of its manifest.json, when the run was first launched");
  v.field("kind", kind, "of that checkpoint");
  v.field("step", step, "of that checkpoint", at_least(0));
}

void SkipBatches::describe(ConfigVisitor& v) {
  v.field("batches", batches, "passed over, as --skip-batches said; 0: none", at_least(0));
  v.field("samples", samples, "in them", at_least(0));
  v.field("manifest_sha256", manifest_sha256, "of the checkpoint after which they would have come");
  v.field("step", step, "of that checkpoint", at_least(0));
}

void RunRecord::describe(ConfigVisitor& v) {
  v.field("last_step", last_step, "newest step that was made; 0: none", at_least(0));
  v.field("saved_step", saved_step, "step of the newest checkpoint that was committed; 0: none", at_least(0));
}

void Job::describe(ConfigVisitor& v) {
  v.field("schema", schema, "version of this file's form", one_of({std::string(kJobSchema)}).required());
  v.field("build_id", build_id, "build of the launcher; a worker built otherwise refuses", Rule{}.required());
  v.field("run_dir", run_dir, "run directory, absolute", Rule{}.required());
  v.field("run_id", run_id, "of the run for good; empty, of an older version: the recipe's name");
  v.field("launcher", launcher, "what starts the ranks", one_of({"mpirun", "srun", "threads"}).required());
  v.field("world_size", world_size, "number of ranks", at_least(1).required());
  v.field("ranks", ranks, "where each rank runs", Rule{}.required());
  v.field("threads_per_rank", threads_per_rank, "compute threads of a rank", at_least(1));
  v.field("resume", resume, "auto | never | a checkpoint folder");
  v.field("allow_intermediate", allow_intermediate, "resume may name a state with infinities or NaNs");
  v.field("init_from", init_from, "weights to start from, as long as there is no checkpoint to resume");
  v.field("skip", skip, "samples to pass over when the run goes on from one checkpoint");
  v.field("skipped_before", skipped_before, "the same, asked for earlier, after older checkpoints");
  v.field("seen", seen, "what the launchers saw of the run so far");
  v.field("peak_flops_per_rank", peak_flops_per_rank, "FLOP/s a rank could reach; 0: not known", at_least(0));
  v.field("peak_flops_origin", peak_flops_origin, "who says so");
  v.field("memory_limit_bytes_per_rank", memory_limit_bytes_per_rank, "0: none", at_least(0));
  v.field("overrides", overrides, "--set expressions, in order");
  v.field("recipe", recipe, "the resolved recipe", Rule{}.required());
}

Job load_job(const std::filesystem::path& launch_json) {
  Job job = read_strict<Job>(launch_json);
  if (static_cast<int64_t>(job.ranks.size()) != job.world_size)
    fail(ErrorKind::config, fmt::format("{}: world_size is {}, but ranks has {}", launch_json.string(), job.world_size,
                                        counted(std::ssize(job.ranks), "entry", "entries")));
  for (size_t r = 0; r < job.ranks.size(); ++r)
    if (job.ranks[r].rank != static_cast<int64_t>(r))
      fail(ErrorKind::config, fmt::format("{}: ranks[{}].rank is {}; ranks are listed in order from 0",
                                          launch_json.string(), r, job.ranks[r].rank));
  return job;
}

void save_job(const Job& job, const std::filesystem::path& launch_json) { write_json(job, launch_json); }

std::filesystem::path RunPaths::rank_log(int64_t rank) const { return logs() / fmt::format("rank-{:05}.log", rank); }

std::filesystem::path RunPaths::rank_error(int64_t rank) const {
  return errors() / fmt::format("rank-{:05}.json", rank);
}

void RankFailure::describe(ConfigVisitor& v) {
  v.field("rank", rank, "global rank", at_least(0).required());
  v.field("host", host, "name of the machine");
  v.field("pid", pid, "process id there");
  v.field("kind", kind, "error kind", Rule{}.required());
  v.field("step", step, "step being computed, from 1; 0: before the first");
  v.field("operation", operation, "what the rank was doing");
  v.field("message", message, "cause");
  v.field("next_sample", next_sample, "first sample behind that step; -1: not known", at_least(-1));
  v.field("time_ns", time_ns, "wall clock");
  v.field("group_axis", group_axis, "hangs: mesh axis of the unfinished operation's group");
  v.field("group_ranks", group_ranks, "hangs: its ranks");
  v.field("sequence", sequence, "hangs: its number in the group; -1: none");
  v.field("waited_s", waited_s, "hangs: how long");
  v.field("recent", recent, "last operations, newest last");
}

void save_rank_failure(const RankFailure& failure, const std::filesystem::path& file) { write_json(failure, file); }

std::string line_of(RankFailure failure) {
  failure.recent.clear();
  if (failure.message.size() > kPrintedMessageBytes) failure.message.resize(kPrintedMessageBytes);
  return std::string(kPrintedFailure) +
         write_config(failure).dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<RankFailure> rank_failure_of_line(std::string_view line) {
  if (!line.starts_with(kPrintedFailure)) return std::nullopt;
  try {
    return read_strict<RankFailure>(parse_json(line.substr(kPrintedFailure.size()), "printed report"),
                                    "printed report");
  } catch (const Error&) {  // torn on its way
    return std::nullopt;
  }
}

std::vector<RankFailure> load_rank_failures(const std::filesystem::path& errors_folder) {
  std::vector<RankFailure> failures;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(errors_folder, ignored)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("rank-") || entry.path().extension() != ".json") continue;
    try {
      failures.push_back(read_strict<RankFailure>(entry.path()));
    } catch (const Error&) {
      // A rank that dies while it writes leaves no usable report; the other reports still count.
    }
  }
  std::sort(failures.begin(), failures.end(),
            [](const RankFailure& a, const RankFailure& b) { return a.rank < b.rank; });
  return failures;
}

}  // namespace trainctl
