// tests/support/launch_fixture.h -- a folder with a small recipe, token files and a topology, and launches in it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/subprocess.h"

namespace trainctl::testing {

struct LaunchFixture {
  // A recipe of `steps` steps for tensor_parallel 2 x data_parallel "fill" on a byte vocabulary; a topology of this
  // machine with eight slots; empty token files.
  explicit LaunchFixture(int64_t steps = 6);

  // From here on the real worker runs, on token files of a made-up text, with a topology of this machine; ranks may
  // outnumber its cores.
  void use_real_worker();

  // The real worker, started by a shell script of which these are the first lines.
  void use_real_worker_after(const std::string& script);

  // trainctl launch recipe.json --topology topology.json --run-dir run --worker WORKER, then `more`.
  std::vector<std::string> command(const std::vector<std::string>& more) const;
  SubprocessResult launch(const std::vector<std::string>& more, const std::string& fake_worker = "",
                          double timeout_s = 40) const;
  SubprocessOptions options(const std::string& fake_worker, double timeout_s = 40) const;

  std::filesystem::path run_dir() const { return folder.path() / "run"; }
  std::vector<pid_t> worker_pids() const;          // that the fake workers wrote into their logs
  std::map<int64_t, pid_t> running_ranks() const;  // rank -> process that runs this launch.json now

  TemporaryFolder folder;
  std::string recipe, topology, worker;
  bool oversubscribe = false;
};

std::string read_text(const std::filesystem::path& path);
int64_t count_of(const std::string& text, const std::string& what);

}  // namespace trainctl::testing
