// lib/schedule/simulate.cpp -- list scheduling of the programs under their data dependencies.
#include "schedule/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace trainctl {
namespace {

std::string_view word(Phase phase) { return phase == Phase::forward ? "forward" : "backward"; }

void require_complete(const Schedule& schedule) {
  if (schedule.num_stages < 1 || std::ssize(schedule.programs) != schedule.num_stages)
    fail(ErrorKind::plan, fmt::format("schedule {} has {} programs for {} stages", schedule.name,
                                      schedule.programs.size(), schedule.num_stages));
  if (schedule.num_micro_batches < 1)
    fail(ErrorKind::plan, fmt::format("schedule {} has {} micro-batches; it must have at least 1", schedule.name,
                                      schedule.num_micro_batches));
  const auto count = static_cast<size_t>(schedule.num_micro_batches);
  for (size_t s = 0; s < schedule.programs.size(); ++s) {
    std::vector<int> seen(2 * count, 0);
    for (const Action& a : schedule.programs[s]) {
      if (a.micro_batch < 0 || a.micro_batch >= schedule.num_micro_batches || a.chunk != 0)
        fail(ErrorKind::plan,
             fmt::format("schedule {}, stage {}: {} of micro-batch {}, chunk {} is out of range: there "
                         "are micro-batches 0 to {} and chunk 0",
                         schedule.name, s, word(a.phase), a.micro_batch, a.chunk, count - 1));
      ++seen[static_cast<size_t>(a.micro_batch) + (a.phase == Phase::backward ? count : 0)];
    }
    for (size_t i = 0; i < seen.size(); ++i)
      if (seen[i] != 1)
        fail(ErrorKind::plan,
             fmt::format("schedule {}, stage {}: the {} of micro-batch {} appears {} times; it must "
                         "appear once",
                         schedule.name, s, word(i < count ? Phase::forward : Phase::backward), i % count, seen[i]));
  }
}

// Where execution stands: end times of what has run, and each stage's next action.
struct Progress {
  const Schedule& schedule;
  std::vector<std::vector<double>> forward_end, backward_end;  // [stage][micro_batch]; < 0: has not run
  std::vector<size_t> next;                                    // [stage]

  explicit Progress(const Schedule& s)
      : schedule(s),
        forward_end(s.programs.size(), std::vector<double>(static_cast<size_t>(s.num_micro_batches), -1)),
        backward_end(forward_end),
        next(s.programs.size(), 0) {}

  // When the inputs of `a` on `stage` exist; nothing while they do not, and then `missing` says which (if asked).
  std::optional<double> ready(size_t stage, const Action& a, std::string* missing) const {
    const auto m = static_cast<size_t>(a.micro_batch);
    double time = 0;
    const auto need = [&](const std::vector<std::vector<double>>& ends, size_t s, Phase phase) {
      if (ends[s][m] >= 0) {
        time = std::max(time, ends[s][m]);
        return true;
      }
      if (missing) *missing = fmt::format("the {} of micro-batch {} on stage {}", word(phase), m, s);
      return false;
    };
    if (a.phase == Phase::forward) {
      if (stage > 0 && !need(forward_end, stage - 1, Phase::forward)) return std::nullopt;
    } else {
      if (!need(forward_end, stage, Phase::forward)) return std::nullopt;
      if (stage + 1 < next.size() && !need(backward_end, stage + 1, Phase::backward)) return std::nullopt;
    }
    return time;
  }

  [[noreturn]] void report_deadlock() const {
    std::string text = fmt::format("schedule {} cannot finish:", schedule.name);
    for (size_t s = 0; s < next.size(); ++s) {
      if (next[s] == schedule.programs[s].size()) continue;
      const Action& a = schedule.programs[s][next[s]];
      std::string missing;
      ready(s, a, &missing);
      text += fmt::format(" stage {} is at action {} ({} of micro-batch {}) and waits for {};", s, next[s],
                          word(a.phase), a.micro_batch, missing);
    }
    text.back() = '.';
    fail(ErrorKind::plan, text);
  }
};

std::vector<int> peaks_of(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const StageProgram& program : schedule.programs) {
    int held = 0, peak = 0;
    for (const Action& a : program) {
      held += a.phase == Phase::forward ? 1 : -1;
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace

Simulation simulate(const Schedule& schedule, const ActionCosts& costs) {
  require_complete(schedule);
  if (!(costs.forward >= 0 && costs.backward >= 0 && costs.forward + costs.backward > 0) ||
      !std::isfinite(costs.forward + costs.backward))
    fail(ErrorKind::plan, fmt::format("action costs are forward {} and backward {}; they must be finite, not negative "
                                      "and not both zero",
                                      costs.forward, costs.backward));
  const size_t stages = schedule.programs.size();
  Progress progress(schedule);
  Simulation result;
  result.stages.resize(stages);

  // A stage is looked at again only when a neighbour has advanced, so every action is examined O(1) times.
  std::vector<size_t> awake;
  for (size_t s = stages; s-- > 0;) awake.push_back(s);
  while (!awake.empty()) {
    const size_t s = awake.back();
    awake.pop_back();
    const StageProgram& program = schedule.programs[s];
    bool advanced = false;
    while (progress.next[s] < program.size()) {
      const Action& a = program[progress.next[s]];
      const std::optional<double> ready = progress.ready(s, a, nullptr);
      if (!ready) break;
      const double start = std::max(*ready, result.stages[s].empty() ? 0.0 : result.stages[s].back().end);
      const double end = start + (a.phase == Phase::forward ? costs.forward : costs.backward);
      auto& ends = a.phase == Phase::forward ? progress.forward_end : progress.backward_end;
      ends[s][static_cast<size_t>(a.micro_batch)] = end;
      result.stages[s].push_back({a, start, end});
      ++progress.next[s];
      advanced = true;
    }
    if (!advanced) continue;
    if (s > 0) awake.push_back(s - 1);
    if (s + 1 < stages) awake.push_back(s + 1);
  }
  for (size_t s = 0; s < stages; ++s)
    if (progress.next[s] != schedule.programs[s].size()) progress.report_deadlock();

  result.peak_in_flight = peaks_of(schedule);
  double busy = 0;
  for (const auto& stage : result.stages) {
    result.makespan = std::max(result.makespan, stage.back().end);
    busy += static_cast<double>(schedule.num_micro_batches) * (costs.forward + costs.backward);
  }
  result.bubble_fraction = 1.0 - busy / (static_cast<double>(stages) * result.makespan);
  return result;
}

std::string to_text(const Simulation& simulation, int max_columns) {
  bool whole = simulation.makespan <= max_columns;
  size_t width = 2;
  for (const auto& stage : simulation.stages)
    for (const TimedAction& t : stage) {
      whole = whole && t.start == std::floor(t.start) && t.end == std::floor(t.end) && t.end > t.start;
      width = std::max(width, to_text(t.action).size());
    }
  std::string text;
  for (size_t s = 0; s < simulation.stages.size(); ++s) {
    std::string row = fmt::format("stage {:<3}|", s);
    if (whole) {
      std::vector<std::string> cells(static_cast<size_t>(simulation.makespan), ".");
      for (const TimedAction& t : simulation.stages[s])
        for (double time = t.start; time < t.end; ++time)
          cells[static_cast<size_t>(time)] = time == t.start ? to_text(t.action) : "-";
      for (const std::string& cell : cells) row += fmt::format(" {:<{}}", cell, width);
    } else {
      for (const TimedAction& t : simulation.stages[s]) row += " " + to_text(t.action);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  text += fmt::format("bubble {:.1f} %, micro-batches in flight at most per stage: {}\n",
                      100 * simulation.bubble_fraction, fmt::join(simulation.peak_in_flight, " "));
  return text;
}

}  // namespace trainctl
