// lib/launch/preflight.cpp -- programs, hosts, data, memory and disk.
#include "launch/preflight.h"

#include <fmt/format.h>
#include <netdb.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/checkpoint_config.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kRoomForLogsBytes = int64_t{64} << 20;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Devices other than the CPU are plugins next to the worker.
void require_device(const std::string& device, const fs::path& worker) {
  if (device == "cpu") return;
  const fs::path plugin = worker.parent_path() / fmt::format("libtrainctl_{}.so", device);
  std::error_code ignored;
  if (!fs::exists(plugin, ignored))
    fail(ErrorKind::environment, fmt::format("runtime.device is \"{}\", but the plugin {} is not there: this build has "
                                             "no {} backend; plan and check work without it, to train use --set "
                                             "runtime.device=cpu",
                                             device, plugin.string(), device));
}

void require_launcher(const std::string& launcher) {
  if (launcher == "threads" || !find_on_path(launcher).empty()) return;
  if (launcher == "mpirun")
    fail(ErrorKind::environment,
         "mpirun is not on PATH; install the Debian package openmpi-bin (apt-get install "
         "openmpi-bin), or use --launcher threads");
  fail(ErrorKind::environment,
       "srun is not on PATH; install the Debian package slurm-client and start inside a Slurm "
       "allocation, or use --launcher mpirun");
}

void require_hosts(const LaunchPlan& plan) {
  char own[256] = "";
  ::gethostname(own, sizeof own - 1);
  for (const HostPlace& place : plan.map.hosts) {
    const std::string& name = place.host.name;
    if (name == "localhost" || name == own) continue;
    if (plan.job.launcher == "threads")
      fail(ErrorKind::plan,
           fmt::format("--launcher threads runs on this machine ({}), but the topology's host is {}; use "
                       "a topology of this machine (trainctl topology discover)",
                       own, name));
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(name.c_str(), nullptr, nullptr, &found);
    if (found != nullptr) ::freeaddrinfo(found);
    if (status != 0)
      fail(ErrorKind::environment,
           fmt::format("host {} of the topology is neither this machine ({}) nor known to the resolver ({}); describe "
                       "the machines you have (trainctl topology discover)",
                       name, own, ::gai_strerror(status)));
  }
}

void require_memory(const LaunchPlan& plan, const PreflightHooks& hooks) {
  if (!hooks.memory) return;
  std::string text;
  for (const std::string& line : hooks.memory(plan)) text += "\n  " + line;
  if (!text.empty())
    fail(ErrorKind::plan, "the job does not fit into memory:" + text +
                              "\nUse more ranks, a smaller micro_batch_size, or recompute \"full\".");
}

bool saves(const Recipe& recipe) { return recipe.checkpoint.every_steps > 0 || recipe.checkpoint.at_end; }

int64_t with_margin(int64_t bytes) { return checked_add(bytes, free_space_margin(bytes)); }

void require_disk(const LaunchPlan& plan, const fs::path& run_dir, const PreflightHooks& hooks) {
  fs::path existing = fs::absolute(run_dir);
  std::error_code error;
  while (!fs::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  const fs::space_info space = fs::space(existing, error);
  if (error) return;  // a file system that does not say; writing will
  int64_t needed = kRoomForLogsBytes;
  if (hooks.checkpoint_bytes && saves(plan.job.recipe))
    needed = checked_add(needed, with_margin(hooks.checkpoint_bytes(plan)));
  const auto available = static_cast<int64_t>(space.available);
  if (available < needed)
    fail(ErrorKind::environment,
         fmt::format("{} has {} free, but the run needs about {} for logs and checkpoints; free "
                     "some, choose another --run-dir, or keep fewer (checkpoint.keep)",
                     existing.string(), human_bytes(available), human_bytes(needed)));
}

}  // namespace

fs::path find_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, colon)) / program;
    if (is_program(candidate)) return candidate;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {};
}

fs::path default_worker() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path("trainctl_worker") : self.parent_path() / "trainctl_worker";
}

void preflight(const LaunchPlan& plan, const fs::path& worker, const fs::path& run_dir, const PreflightHooks& hooks) {
  if (!is_program(worker))
    fail(ErrorKind::environment, fmt::format("the worker program {} is missing or not executable; build the target "
                                             "trainctl_worker, or name one with --worker",
                                             worker.string()));
  require_device(plan.job.recipe.runtime.device, worker);
  require_launcher(plan.job.launcher);
  require_hosts(plan);
  if (hooks.data) hooks.data(plan.job.recipe);
  require_memory(plan, hooks);
  require_disk(plan, run_dir, hooks);
}

}  // namespace trainctl
