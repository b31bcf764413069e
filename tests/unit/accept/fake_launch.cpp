// tests/unit/accept/fake_launch.cpp -- stands for `trainctl launch` in a drill: gradient descent on 16 numbers with
// real checkpoints and metrics.jsonl, in milliseconds. One child process is the "rank" that a drill kills.
//
// FAKE_DEED is what goes wrong, and in which launch ("whole", "killed", "again": the killed one started again,
// "other"). The first launch of "killed" waits to be killed after its first commit, so that no clock decides.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "checkpoint/scan.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;

struct Request {
  fs::path run_dir;
  std::string resume = "auto", launch;  // launch: whole, killed, again or other
  int64_t steps = 0, every = 0;
};

Request request_of(int argc, char** argv) {
  Request r;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--run-dir") r.run_dir = value;
    if (option == "--resume") r.resume = value;
    if (option == "--set" && value.starts_with("runtime.steps=")) r.steps = std::stoll(value.substr(14));
    if (option == "--set" && value.starts_with("checkpoint.every_steps=")) r.every = std::stoll(value.substr(23));
  }
  r.launch = r.run_dir.filename().string();
  if (r.launch == "killed" && fs::exists(r.run_dir / "started")) r.launch = "again";
  return r;
}

bool deed(const char* name) {
  const char* asked = std::getenv("FAKE_DEED");
  return asked != nullptr && std::string(asked) == name;
}

[[noreturn]] void wait_for_good() {
  for (;;) ::pause();
}

void flip_last_byte(const fs::path& file) {
  const std::string bytes = file_bytes(file);
  put_byte(file, bytes.size() - 1, static_cast<char>(bytes.back() ^ 1));
}

void drop_last_line(const fs::path& file) {
  std::string text = file_bytes(file);
  text.pop_back();
  put_bytes(file, text.substr(0, text.rfind('\n') + 1));
}

// The folder of the checkpoint that the drill continues in another layout.
fs::path middle_of(const Request& r) {
  return r.run_dir.parent_path() / "whole/checkpoints" / folder_name_of(r.steps / 2);
}

class Run {
 public:
  explicit Run(const Request& r)
      : r_(r),
        // COMMITTED is seen when the drill may see it.
        folder_(r.run_dir / (quick() ? "hidden" : "checkpoints")),
        state_({{"w", "weight", DType::f32, {16}, -1, ""}, {"w", "exp_avg", DType::f32, {16}, -1, ""}}, 0, 1),
        weights_(static_cast<float*>(state_.catalog[0].local.data())),
        moments_(static_cast<float*>(state_.catalog[1].local.data())) {}

  int train() {
    CheckpointConfig config;
    config.keep = 1000;
    Checkpointer checkpointer = build_checkpointer(config, options_for(folder_), state_.arena(), state_.catalog);
    const int64_t done = start(checkpointer);
    std::ofstream metrics = kept_metrics(done);
    for (int64_t step = done + 1; step <= r_.steps; ++step) {
      one_step(step);
      metrics << fmt::format("{{\"step\":{},\"loss\":{},\"grad_norm\":{}}}", step, loss_ * gap(), norm_) << std::endl;
      if (step == r_.steps && r_.launch == "again" && deed("ends_elsewhere")) moments_[0] += 1;
      if (step == r_.steps || (r_.every > 0 && step % r_.every == 0)) save(checkpointer, step);
    }
    return 0;
  }

 private:
  bool quick() const { return r_.launch == "killed" && deed("too_quick"); }
  double gap() const {
    if (r_.launch != "other") return 1;
    return deed("small_gap") ? 1 + 3e-6 : deed("gap") ? 1 + 3e-5 : 1;
  }

  int64_t start(Checkpointer& checkpointer) {
    for (int i = 0; i < 16; ++i) weights_[i] = moments_[i] = 0;
    if (r_.launch == "other" && deed("other_begins_anew")) return 0;
    const RestoreResult found = checkpointer.restore(state_.catalog, r_.resume);
    if (r_.launch == "again" && deed("loses_moments"))
      for (int i = 0; i < 16; ++i) moments_[i] = 0;
    return found.found ? found.step : 0;
  }

  std::ofstream kept_metrics(int64_t done) const {
    const fs::path file = r_.run_dir / "metrics.jsonl";
    std::istringstream before(fs::exists(file) ? file_bytes(file) : "");
    std::string kept, line;
    for (int64_t i = 0; i < done && r_.launch != "other" && std::getline(before, line); ++i) kept += line + "\n";
    put_bytes(file, kept);
    return std::ofstream(file, std::ios::app);
  }

  // The data of a step: numbers that depend on the seed.
  void one_step(int64_t step) {
    const uint32_t seed = r_.launch == "again" && deed("another_seed") ? 2 : 1;
    loss_ = norm_ = 0;
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = element_bits("data", "train", step * 16 + i, seed);
      const double gradient = static_cast<double>(weights_[i]) - 1 - 1e-10 * bits;
      loss_ += gradient * gradient;
      norm_ += std::abs(gradient);
      moments_[i] = 0.9f * moments_[i] + static_cast<float>(gradient);
      weights_[i] -= 0.1f * moments_[i];
    }
  }

  void save(Checkpointer& checkpointer, int64_t step) {
    ScalarState s = scalars_at(step);
    s.last_loss = loss_;
    s.last_grad_norm = norm_;
    checkpointer.save(state_.catalog, s, SaveReason::final);
    for (const SaveOutcome& o : checkpointer.wait())
      if (!o.ok) throw std::runtime_error(o.reason);
    if (r_.launch == "killed" && !quick()) wait_for_good();
  }

  Request r_;
  fs::path folder_;
  RankState state_;
  float *weights_, *moments_;
  double loss_ = 0, norm_ = 0;
};

int told_to_fail(int code) {
  fmt::print("the fake was told to fail\n");
  return code;
}

// What is done to the files before and after the training of a launch. An exit code other than 0 ends the launch.
int before(const Request& r) {
  fs::create_directories(r.run_dir);
  if (r.launch == "killed") std::ofstream(r.run_dir / "started") << "once\n";
  if (r.launch == "whole" && deed("whole_fails")) return told_to_fail(7);
  if (r.launch == "killed" && deed("nothing_usable")) {
    fs::create_directories(r.run_dir / "checkpoints/step-00000001");
    std::ofstream(r.run_dir / "checkpoints/step-00000001/COMMITTED") << "torn";
    wait_for_good();
  }
  if (r.launch == "again" && deed("starts_anew")) fs::remove_all(r.run_dir / "checkpoints");
  if (r.launch == "again" && deed("does_not_start_again")) return told_to_fail(9);
  if (r.launch == "other" && deed("refuses_the_layout")) {
    fmt::print(
        "trainctl: warning: a warning\ntrainctl: plan: no such layout\nwhat to do: nothing\na table\nand more\n");
    return 3;
  }
  if (r.launch == "other" && deed("damaged_middle")) flip_last_byte(middle_of(r) / "data/model-r00000.safetensors");
  return 0;
}

void after(const Request& r) {
  if (r.launch == "killed") fs::rename(r.run_dir / "hidden", r.run_dir / "checkpoints");
  if (r.launch == "whole" && deed("one_checkpoint")) fs::remove_all(middle_of(r) / "data");
  if (r.launch == "whole" && deed("lost_line")) drop_last_line(r.run_dir / "metrics.jsonl");
  if (r.launch == "again" && deed("forgets_a_step")) drop_last_line(r.run_dir / "metrics.jsonl");
  if (r.launch == "again" && deed("unusable_end"))
    fs::remove(r.run_dir / "checkpoints" / folder_name_of(r.steps) / "COMMITTED");
  if (r.launch == "other" && deed("other_ends_early")) drop_last_line(r.run_dir / "metrics.jsonl");
  if (r.launch == "other" && deed("gone_before_marking")) fs::remove(middle_of(r) / "manifest.json");
  if (r.launch == "other" && deed("marker_in_the_way")) fs::create_directories(middle_of(r) / "DRILLED/folder");
}

int rank(const Request& r) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (const int code = before(r); code != 0) return code;
    const int code = Run(r).train();
    after(r);
    return code;
  } catch (const std::exception& e) {
    fmt::print("{}\n", e.what());
    return 5;
  }
}

}  // namespace
}  // namespace trainctl::testing

int main(int argc, char** argv) {
  using namespace trainctl::testing;
  const pid_t child = ::fork();
  if (child == 0) {
    const int code = rank(request_of(argc, argv));
    std::fflush(stdout);
    std::_Exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
