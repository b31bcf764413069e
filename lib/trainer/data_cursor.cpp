// lib/trainer/data_cursor.cpp -- see the header.
#include "trainer/data_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/config_io.h"
#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr int64_t kMostSamples = int64_t{1} << 60;  // of a run: sums of a few stay in 64 bits

std::string joined(const std::vector<std::string>& lines, std::string_view separator) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += fmt::format("{}{}", i ? separator : "", lines[i]);
  if (lines.size() > kShown) text += fmt::format("{}and {} more", separator, lines.size() - kShown);
  return text;
}

// `no_continue`: why "continue" is no choice; "" when it is one.
[[noreturn]] void refuse(const std::string& folder, const std::string& on_change, const std::vector<std::string>& lines,
                         const std::string& no_continue) {
  const std::string choices =
      no_continue.empty() ? "\"continue\" (each source goes on behind the samples it has given, new ones begin at "
                            "their first) or \"restart\" (the order begins anew)"
                          : "\"restart\" (the order begins anew); \"continue\" is no choice: " + no_continue;
  fail(ErrorKind::checkpoint,
       fmt::format(
           "{} belongs to other data, and data.on_change is \"{}\":\n  {}\nwhat to do: restore the values of the "
           "checkpoint; or set data.on_change to {}; or start another run with another --run-dir",
           folder, on_change, joined(lines, "\n  "), choices));
}

}  // namespace

void SkippedSamples::describe(ConfigVisitor& v) {
  v.field("after_step", after_step, "step after which they would have come", at_least(0).required());
  v.field("first", first, "global number of the first", at_least(0).required());
  v.field("count", count, "how many", at_least(0).required());
}

void DataState::describe(ConfigVisitor& v) {
  v.field("order", order, "where the sources stand", Rule{}.required());
  v.field("samples_per_step", samples_per_step, "global_batch_size", at_least(1).required());
  v.field("skipped", skipped, "samples that were passed over", Rule{}.required());
}

std::string to_text(const DataState& state) {
  // Paths may hold any byte, JSON may not.
  return write_config(state).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

DataState data_state_from_text(const std::string& text, const std::string& source) {
  DataState state;
  ConfigSource where;
  where.source = source;
  std::vector<Fault> faults;
  read_config(parse_json(text, source), state, where, faults);
  if (faults.empty())
    if (const std::string fault = order_fault(state.order); !fault.empty()) faults.push_back({"order", {}, fault});
  if (!faults.empty()) fail(ErrorKind::checkpoint, format_faults(source, faults));
  return state;
}

DataCursor::DataCursor(const Job& job, Sampler& sampler) : job_(job), sampler_(sampler) {}

DataOrder DataCursor::changed_order(const DataState& then, const std::string& folder,
                                    std::vector<DataRemark>& remarks) const {
  const DataOrder& now = sampler_.order();
  const DataChanges changes = data_changes(then.order, now);
  if (changes.lines.empty()) return same_data(then.order, now);
  const std::string& on_change = job_.recipe.data.on_change;
  if (on_change == "refuse" || (on_change == "continue" && !changes.inexact.empty()))
    refuse(folder, on_change, changes.lines,
           changes.inexact.empty() ? ""
                                   : fmt::format("after a change of {} samples are cut or shuffled otherwise, and some "
                                                 "would be repeated or skipped",
                                                 joined(changes.inexact, ", ")));
  const bool anew = on_change == "restart";
  remarks.push_back({false, fmt::format("the data changed: {}", joined(changes.lines, "; "))});
  DataOrder next = anew ? restarted(now, next_sample_) : continued(then.order, now, next_sample_);
  std::vector<std::string> places;
  for (size_t k = 0; k < next.sources.size(); ++k)
    places.push_back(fmt::format("{} (data.train[{}]) {}", in_quotes(next.sources[k].path), k,
                                 next.sources[k].given == 0
                                     ? "begins at its first sample"
                                     : fmt::format("goes on behind {}", counted(next.sources[k].given, "sample"))));
  remarks.push_back({false, fmt::format("data.on_change is \"{}\": from sample {} on {}", on_change, next_sample_,
                                        anew ? "the order begins anew with its first" : joined(places, "; "))});
  return next;
}

int64_t DataCursor::skip(const RestoreResult& found, std::vector<DataRemark>& remarks) {
  std::vector<SkipBatches> asked = job_.skipped_before;
  if (job_.skip.batches > 0) asked.push_back(job_.skip);
  int64_t passed = 0;
  for (const SkipBatches& skip : asked) {
    if (found.manifest_sha256 == skip.manifest_sha256) {
      pass_over(skip, found.step, remarks);
      passed = skip.batches;
      continue;
    }
    const auto made = [&](const SkippedSamples& s) { return s.after_step == skip.step && s.count == skip.samples; };
    if (std::ranges::any_of(skipped_, made)) continue;  // this state comes after it
    remarks.push_back({true, fmt::format("--skip-batches {} was for the checkpoint of step {} and does not apply: the "
                                         "run goes on from another, of step {}; give --resume and --skip-batches again "
                                         "to go back",
                                         skip.batches, skip.step, found.step)});
  }
  return passed;
}

void DataCursor::pass_over(const SkipBatches& skip, int64_t after_step, std::vector<DataRemark>& remarks) {
  if (skip.samples > kMostSamples - next_sample_)
    fail(ErrorKind::checkpoint,
         fmt::format("--skip-batches {} passes over {} samples after {}: more samples than a run can have ({})",
                     skip.batches, skip.samples, next_sample_, kMostSamples));
  remarks.push_back({false, fmt::format("skips {} after step {}: samples {} to {} (--skip-batches)",
                                        counted(skip.batches, "batch", "batches"), after_step, next_sample_,
                                        next_sample_ + skip.samples - 1)});
  skipped_.push_back({after_step, next_sample_, skip.samples});
  next_sample_ += skip.samples;
}

// Of [first, next_sample_), which were samples of `then`. A source's epoch is known when it is still there as it was.
DataRemark DataCursor::what_was_skipped(const DataOrder& then, int64_t first, int64_t batches) const {
  const DataOrder& now = sampler_.order();
  const bool same_cut = data_changes(then, now).inexact.empty();
  const std::vector<int64_t> before = given_before(then, first), after = given_before(then, next_sample_);
  std::vector<std::string> parts, whole;
  for (size_t j = 0; j < then.sources.size(); ++j) {
    const int64_t count = after[j] - before[j];
    if (count == 0) continue;
    const std::string path = in_quotes(then.sources[j].path);
    std::string epochs;
    for (size_t k = 0; same_cut && k < now.sources.size(); ++k) {
      if (now.sources[k].number != then.sources[j].number || now.sources[k].digest != then.sources[j].digest) continue;
      const int64_t epoch = sampler_.samples_per_epoch(Split::train, static_cast<int64_t>(k));
      epochs = fmt::format(" ({:.2f} epochs)", static_cast<double>(count) / static_cast<double>(epoch));
      if (count >= epoch) whole.push_back(path);
    }
    parts.push_back(fmt::format("{} of {}{}", count, path, epochs));
  }
  const std::string text = "the skipped samples are " + joined(parts, ", ");
  if (whole.empty()) return {false, text};
  return {true,
          fmt::format("{}: a whole epoch or more of {}, and every epoch has the same documents; is --skip-batches {} "
                      "meant?",
                      text, joined(whole, ", "), batches)};
}

void DataCursor::begin() const {
  sampler_.require(Split::train);
  if (job_.recipe.runtime.eval_every_steps > 0) sampler_.require(Split::validation);
}

std::vector<DataRemark> DataCursor::resume(const RestoreResult& found) {
  const ScalarState& s = found.scalars;
  const std::string folder = found.folder.string();
  std::vector<DataRemark> remarks;
  if (s.consumed_samples < 0 || s.consumed_samples > kMostSamples || s.consumed_tokens < 0)
    fail(ErrorKind::checkpoint,
         fmt::format("{} does not say how many samples it consumed ({})", folder, s.consumed_samples));
  next_sample_ = s.consumed_samples;
  consumed_tokens_ = s.consumed_tokens;
  const int64_t batch = job_.recipe.runtime.global_batch_size.value();

  DataState then;
  if (!s.data_state.empty()) {
    then = data_state_from_text(s.data_state, folder + ", data.state");
    if (then.order.first_sample > s.consumed_samples || then.order.seed != s.seed ||
        fingerprint_of(then.order) != s.data_fingerprint)
      fail(ErrorKind::checkpoint, fmt::format("{}: data.state contradicts the seed {}, the fingerprint {} or the {} "
                                              "consumed samples beside it",
                                              folder, s.seed, s.data_fingerprint, s.consumed_samples));
  } else {  // of a version that had one order for a whole run, and one batch
    then.order = sampler_.order();
    then.samples_per_step = s.step > 0 ? s.consumed_samples / s.step : batch;
    if (fingerprint_of(then.order) != s.data_fingerprint) {
      if (job_.recipe.data.on_change != "restart")
        refuse(folder, job_.recipe.data.on_change,
               {fmt::format("runtime.seed: {} -> {}", s.seed, job_.recipe.runtime.seed),
                fmt::format("fingerprint of the data: {} -> {}", s.data_fingerprint, fingerprint_of(then.order))},
               "the checkpoint is of a version that did not write down which data they were");
      then.order = restarted(sampler_.order(), next_sample_);
    }
  }
  skipped_ = then.skipped;
  const int64_t passed = skip(found, remarks);
  sampler_.follow(changed_order(then, folder, remarks));
  begin();
  if (next_sample_ > s.consumed_samples) remarks.push_back(what_was_skipped(then.order, s.consumed_samples, passed));
  if (then.samples_per_step != batch)
    remarks.push_back(
        {false, fmt::format("runtime.global_batch_size is {}, it was {}: step {} begins with sample {}; learning rates "
                            "go by steps",
                            batch, then.samples_per_step, s.step + 1, next_sample_)});
  return remarks;
}

void DataCursor::advance() {
  const int64_t batch = job_.recipe.runtime.global_batch_size.value();
  next_sample_ += batch;
  consumed_tokens_ += batch * job_.recipe.data.sequence_tokens;
}

void DataCursor::record(ScalarState& s) const {
  s.consumed_samples = next_sample_;
  s.consumed_tokens = consumed_tokens_;
  s.seed = job_.recipe.runtime.seed;
  s.data_fingerprint = fingerprint_of(sampler_.order());
  s.data_state = to_text(DataState{sampler_.order(), job_.recipe.runtime.global_batch_size.value(), skipped_});
}

}  // namespace trainctl
