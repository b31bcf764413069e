// tests/bench/checkpoint_export.cpp -- training steps beside exports of the same model by the command, against steps
// without one.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/config_io.h"
#include "base/error.h"
#include "bench_trainee.h"
#include "checkpoint/safetensors.h"
#include "checkpoint_bench.h"
#include "support/subprocess.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::bench {
namespace fs = std::filesystem;

void bench_export_beside(const CheckpointBenchOptions& o) {
  const fs::path trainctl = fs::read_symlink("/proc/self/exe").parent_path() / "trainctl";
  const fs::path run = o.folder / "run", out = o.folder / "hf";
  Trainee trainee(o.threads, 1024);
  for (int i = 0; i < 3; ++i) trainee.step();
  {
    CheckpointConfig config;
    config.io = o.io;
    CheckpointerOptions options = testing::options_for(run);
    options.provenance = nlohmann::ordered_json{{"recipe", write_config(trainee.recipe())}}.dump();
    Checkpointer c =
        build_checkpointer(config, std::move(options), *trainee.engine().arena, trainee.engine().catalog());
    c.save(trainee.engine().catalog(), testing::scalars_at(trainee.steps()), SaveReason::final);
    if (const auto outcomes = c.wait(); !outcomes.at(0).ok) fail(ErrorKind::internal, outcomes.at(0).reason);
  }
  const fs::path checkpoint = run / folder_name_of(trainee.steps());
  std::vector<double> quiet, beside, seconds;
  for (int i = 0; i < o.repeats; ++i) {
    for (int n = 0; n < 4; ++n) quiet.push_back(trainee.step());
    fs::remove_all(out);
    const double start = now_s();
    testing::Subprocess process({"nice", "-n", "19", trainctl.string(), "checkpoint", "export", checkpoint.string(),
                                 "--to", "hf", "--output", out.string()},
                                {.timeout_s = 600});
    while (testing::is_alive(process.pid())) {
      const double step = trainee.step();
      if (testing::is_alive(process.pid())) beside.push_back(step);
    }
    const testing::SubprocessResult r = process.wait();
    seconds.push_back(now_s() - start);
    if (r.exit_code != 0) fail(ErrorKind::internal, "the export failed: " + r.err);
  }
  trainee.check();
  if (const SafetensorsReader reader(out / "model.safetensors"); reader.header().tensors.empty())
    fail(ErrorKind::internal, "the export has no tensors");
  if (beside.empty()) fail(ErrorKind::internal, "no step lies within an export");
  const double step = median(quiet);
  fmt::print(
      "export beside training (nice -n 19): {:.2f} s each; {} steps of 1024 tokens without, {:.0f} ms; {} within: "
      "median {:.3f} x, slowest {:.3f} x (without {:.3f} x)\n",
      median(seconds), quiet.size(), step * 1e3, beside.size(), median(beside) / step,
      *std::max_element(beside.begin(), beside.end()) / step, *std::max_element(quiet.begin(), quiet.end()) / step);
  fs::remove_all(run);
  fs::remove_all(out);
}

}  // namespace trainctl::bench
