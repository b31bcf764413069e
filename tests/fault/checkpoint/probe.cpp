// tests/fault/checkpoint/probe.cpp -- one rank of a run that saves, as a process to be killed or to be lied to; and the
// judge that looks at what is left.
//   trainctl_save_probe save  FOLDER SCENARIO RANK MEETING SAVES CONFIG CALL NUMBER
// With SAVES 2 it copies FOLDER to FOLDER.after between them, and goes on. CONFIG: a checkpoint section, "{}" for none.
// CALL: the system call to be numbered (calls.h), or "all"; NUMBER: the one of these that is meant.
//   trainctl_save_probe judge FOLDER SCENARIO
#include <dlfcn.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/config_io.h"
#include "fault/checkpoint/calls.h"
#include "fault/checkpoint/process_ranks.h"
#include "fault/checkpoint/scenario.h"

namespace trainctl::testing {
namespace {

std::string numbered_calls;  // set once, before the first writer thread is made
int64_t empty_calls = kWriterThreadFirstCall;

void make_empty_calls(int64_t count) {
  for (const SystemCall& call : kFileCalls)
    for (int64_t i = 0; i < count && (numbered_calls == "all" || numbered_calls == call.name); ++i)
      ::syscall(call.number, -1L, -1L, -1L, -1L, -1L, -1L);
}

struct Start {
  void* (*routine)(void*);
  void* argument;
};

void* begin_numbered(void* memory) {
  const std::unique_ptr<Start> start(static_cast<Start*>(memory));
  make_empty_calls(empty_calls);
  return start->routine(start->argument);
}

CheckpointConfig config_from(const std::string& text, int64_t keep) {
  CheckpointConfig config;
  ConfigSource source;
  std::vector<Fault> faults;
  read_config(parse_json(text, "CONFIG"), config, source, faults);
  if (!faults.empty()) throw std::runtime_error(faults.front().path + ": " + faults.front().message);
  config.keep = keep;
  return config;
}

// One line per save: "1 ok", "2 failed: why", "3 skipped: why".
void print(const SaveOutcome& outcome) {
  std::string line = fmt::format("{} {}", outcome.step, outcome.ok ? "ok" : outcome.skipped ? "skipped" : "failed");
  if (!outcome.reason.empty()) line += ": " + outcome.reason;
  for (char& c : line)
    if (c == '\n') c = ' ';
  std::printf("%s\n", line.c_str());
}

int save(const std::vector<std::string>& arguments) {
  const std::filesystem::path folder = arguments.at(0);
  const Scenario& scenario = scenario_named(arguments.at(1));
  const int64_t rank = std::stoll(arguments.at(2));
  const int64_t saves = std::stoll(arguments.at(4));
  RankState state(small_model(), rank, scenario.world);
  CheckpointerOptions options = options_for(folder, process_agreement(arguments.at(3), rank, scenario.world));
  const CheckpointConfig config = config_from(arguments.at(5), scenario.keep);
  Checkpointer c = build_checkpointer(config, std::move(options), state.arena(), state.catalog);
  if (scenario.rolled_back_to >= 0)
    c.restore(state.catalog, (folder / folder_name_of(scenario.rolled_back_to)).string());
  else
    c.restore(state.catalog);
  numbered_calls = arguments.at(6);
  make_empty_calls(1);  // in the log: from here on it is the save
  for (int64_t i = 0; i < saves; ++i) {
    const KnownState next = i == 0 ? scenario.saved : saved_next(scenario);
    state.fill(next.salt);
    c.save(state.catalog, scalars_at(next.step), SaveReason::interval);
    for (const SaveOutcome& outcome : c.wait()) print(outcome);
    empty_calls = later_thread_first_call(std::stoll(arguments.at(7)));
    // The other ranks wait for this one before they save again. In a thread, so that the main thread's numbers stay
    // low.
    if (i == 0 && saves > 1 && rank == 0 && std::filesystem::exists(folder))
      std::thread([&folder] {
        std::filesystem::copy(folder, folder.string() + kAfterFirstSave, std::filesystem::copy_options::recursive);
      }).join();
  }
  return 0;
}

int judge_folder(const std::vector<std::string>& arguments) {
  const Judgement verdict = judge(scenario_named(arguments.at(1)), arguments.at(0));
  std::printf("found %lld %u\n%s", static_cast<long long>(verdict.found.step), verdict.found.salt,
              verdict.fault.c_str());
  return verdict.fault.empty() ? 0 : 1;
}

}  // namespace
}  // namespace trainctl::testing

// In front of the C library's: a thread that is made while calls are numbered begins with the empty ones.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  using namespace trainctl::testing;
  if (numbered_calls.empty()) return create(thread, attributes, routine, argument);
  return create(thread, attributes, begin_numbered, new Start{routine, argument});
}

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const std::vector<std::string> arguments(words.begin() + (words.empty() ? 0 : 1), words.end());
    if (!words.empty() && words[0] == "save") return trainctl::testing::save(arguments);
    if (!words.empty() && words[0] == "judge") return trainctl::testing::judge_folder(arguments);
    std::fputs("usage: trainctl_save_probe save|judge FOLDER SCENARIO ...\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "trainctl_save_probe: %s\n", e.what());
  }
  return 2;
}
