// lib/launch/run_directory.h -- the folder of one run: chosen, locked, checked, and filled with what the ranks read.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "recipe/job.h"

namespace trainctl {

// runs/<name>/<YYYYmmdd-HHMMSS> in local time; with "-2", "-3", ... when that exists. `claim`: makes it as well, so
// that two launchers of the same second get different ones.
std::filesystem::path default_run_directory(const std::string& recipe_name, std::chrono::system_clock::time_point now,
                                            bool claim);

// Throws Error{checkpoint} when `resume` is neither auto, never nor a folder; `what_is_there` tells what could be named
// instead.
void check_resume(const std::string& resume, const std::function<std::string()>& what_is_there = {});

// A run begins with its first step: until then a launch has only said what it would do, and another may say otherwise.
bool has_begun(const RunPaths& paths);

// Each file of a run that is there is a file, and each of its folders is one, or links to them. Throws
// Error{environment} naming the first that is something else (a folder, a pipe, a link to nothing), with what to do.
void check_run_files(const RunPaths& paths);

struct RunDirectory {
  RunPaths paths;          // absolute
  bool continues = false;  // a run that has begun is in it
  FileLock lock;           // held until this goes away; the kernel frees it when the process dies
};

// Creates the folder where needed, takes its lock and waits until no rank of an earlier launch is left, at most
// `ranks_limit_s`. Throws Error{usage} when the folder holds files that are no run (nothing is written into it then),
// or when it holds a run and `resume` is "never"; Error{checkpoint} as check_resume; Error{environment} when it cannot
// be made, when another launcher holds the lock (naming it), or when such a rank remains.
RunDirectory open_run_directory(const std::filesystem::path& root, const std::string& resume,
                                double ranks_limit_s = 30);

// Clears what an earlier attempt left to be read once (stop.request, errors/), then writes recipe.json, plan.json and,
// last, launch.json.
void write_run_files(const RunPaths& paths, const Job& job, const std::string& plan_json);

// "runtime.steps: 200 -> 220" for every value of the recipe of the run so far (launch.json) that the new one changes.
std::vector<std::string> recipe_changes(const Recipe& before, const Recipe& now);

// recipe.json is for people: every launch writes it anew, and reads launch.json. What is told of a file that is lost,
// damaged or edited, before that; "" for one that says what launch.json (`before`) does.
std::string recipe_file_remark(const RunPaths& paths, const Recipe& before);

// What to do in a run directory whose launch.json is damaged or lost.
inline constexpr std::string_view kWithoutLaunchJson =
    "launch.json says what the run started from and what it passes over, so it is not gone on with as if it said "
    "nothing; put the file back, or go on from a checkpoint of this run in another --run-dir (--resume)";

}  // namespace trainctl
