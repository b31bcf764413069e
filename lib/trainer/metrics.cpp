// lib/trainer/metrics.cpp -- see the header.
#include "trainer/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/units.h"

namespace trainctl {
namespace {

nlohmann::json parsed(const std::string& line) {
  return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

// The step of a line; -1 for one that has none.
int64_t step_of(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return -1;
  return json["step"].get<int64_t>();
}

// Which of `values` a line tells; "" for a line that is none of the file's.
std::string told_value(const nlohmann::json& json, const std::vector<std::string>& values) {
  if (step_of(json) < 0) return "";
  for (const std::string& key : values)
    if (const auto at = json.find(key); at != json.end())
      return at->is_number() || at->is_null() || at->is_array() ? key : "";
  return "";
}

constexpr size_t kShownGaps = 4;
constexpr int kMostAside = 9;

std::filesystem::path aside(const std::filesystem::path& path, int n) { return path.string() + fmt::format(".{}", n); }

void put_aside(const std::filesystem::path& path, const std::string& content) {
  for (int n = kMostAside; n > 1; --n)
    if (std::filesystem::exists(aside(path, n - 1))) std::filesystem::rename(aside(path, n - 1), aside(path, n));
  write_file_atomically(aside(path, 1), content);
}

std::string span(int64_t first, int64_t last) {
  return first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
}

}  // namespace

std::vector<std::string> metrics_remarks(const std::filesystem::path& path, int64_t last_step, double last_loss,
                                         bool own) {
  std::error_code absent;
  std::istringstream lines(std::filesystem::exists(path, absent) ? read_file(path) : std::string());
  int64_t seen = -1;
  size_t gaps = 0;
  bool disorder = false;
  std::string missing, other;
  const auto miss = [&](int64_t first, int64_t last) {
    if (++gaps <= kShownGaps) missing += (missing.empty() ? "" : ", ") + span(first, last);
  };
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = parsed(line);
    const int64_t step = step_of(json);
    if (step < 0 || step > last_step || !json.contains("loss")) continue;
    if (seen >= 0 && step > seen + 1) miss(seen + 1, step - 1);
    disorder = disorder || step <= seen;
    seen = step;
    const auto& loss = json["loss"];
    if (step == last_step && loss.is_number() && loss.get<double>() != last_loss)
      other = fmt::format(
          "{} has the loss {} for step {}, and the checkpoint {}: its lines are of another branch of the run",
          path.string(), loss.dump(), step, last_loss);
  }
  if (seen >= 0 && seen < last_step) miss(seen + 1, last_step);
  std::vector<std::string> remarks;
  if (seen < 0 && own)
    remarks.push_back(
        fmt::format("{} has no line of the steps up to {}, which this run has made", path.string(), last_step));
  if (gaps > 0)
    remarks.push_back(fmt::format("{} has no line of {}{}", path.string(), missing,
                                  gaps > kShownGaps ? fmt::format(" and {} more gaps", gaps - kShownGaps) : ""));
  if (disorder) remarks.push_back(fmt::format("{} has steps out of order", path.string()));
  if (!other.empty()) remarks.push_back(other);
  return remarks;
}

std::string keep_steps(const std::filesystem::path& path, int64_t last_step, const std::vector<std::string>& values) {
  const std::string before = std::filesystem::exists(path) ? read_file(path) : std::string();
  struct Line {
    std::string text;
    std::pair<int64_t, std::string> what;  // step, value
  };
  std::vector<Line> lines;
  std::map<std::pair<int64_t, std::string>, size_t> newest;  // its line
  int64_t unreadable = 0, doubles = 0, dropped = 0;
  std::istringstream in(before);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = parsed(line);
    const std::string value = told_value(json, values);
    const bool half = in.eof();
    if (value.empty()) {
      if (!line.empty() && !(half && line.starts_with(R"({"step":)"))) ++unreadable;
      continue;
    }
    if (half) continue;
    if (step_of(json) > last_step) {
      ++dropped;
      continue;
    }
    lines.push_back({line, {step_of(json), value}});
    const auto [at, fresh] = newest.insert_or_assign(lines.back().what, lines.size() - 1);
    if (!fresh) ++doubles;
  }
  std::string kept;
  for (size_t i = 0; i < lines.size(); ++i)
    if (newest.at(lines[i].what) == i) kept += lines[i].text + "\n";

  std::vector<std::string> reasons;
  if (unreadable > 0) reasons.push_back(fmt::format("{} that could not be read", counted(unreadable, "line")));
  if (doubles > 0) reasons.push_back(fmt::format("{} of steps that it has twice", counted(doubles, "line")));
  if (last_step == 0 && dropped > 0) reasons.push_back(fmt::format("{} of an earlier start", counted(dropped, "line")));
  if (!reasons.empty()) put_aside(path, before);
  write_file_atomically(behind_links(path), kept);
  return reasons.empty() ? ""
                         : fmt::format("{}: left out {}; the file as it was is kept in {}", path.string(),
                                       fmt::join(reasons, ", "), aside(path, 1).filename().string());
}

MetricsFile::MetricsFile(const std::filesystem::path& path, LineWriter::MakeRoom make_room)
    : writer_(std::make_unique<LineWriter>(path, false, std::move(make_room))) {}

void MetricsFile::step(const StepReport& r, int64_t consumed_tokens, int64_t model_flops, double peak_flops,
                       int64_t memory_peak_bytes) {
  nlohmann::ordered_json line{{"step", r.step},
                              {"loss", r.loss},
                              {"grad_norm", r.grad_norm},
                              {"clip_factor", r.clip_factor},
                              {"lr", r.lr},
                              {"tokens", r.tokens},
                              {"counted_tokens", r.counted_tokens},
                              {"consumed_tokens", consumed_tokens},
                              {"tokens_per_s", static_cast<double>(r.tokens) / r.step_s}};
  if (peak_flops > 0)
    line["mfu"] = static_cast<double>(model_flops) / r.step_s / peak_flops;
  else
    line["mfu"] = nullptr;
  line["step_s"] = r.step_s;
  line["data_wait_s"] = r.data_wait_s;
  line["comm_exposed_s"] = r.comm_exposed_s;
  line["memory_peak_bytes"] = memory_peak_bytes;
  if (r.skipped) line["skipped"] = true;
  if (!r.layer_norms.empty()) {
    nlohmann::ordered_json norms;
    for (size_t i = 0; i < r.layer_norms.size(); ++i)
      norms[i == 0                          ? "embedding"
            : i + 1 == r.layer_norms.size() ? "head"
                                            : fmt::format("layers.{}", i - 1)] = r.layer_norms[i];
    line["layer_norms"] = std::move(norms);
  }
  writer_->line(line.dump());
}

void MetricsFile::evaluation(int64_t step, double loss) {
  writer_->line(nlohmann::ordered_json{{"step", step}, {"eval_loss", loss}}.dump());
}

}  // namespace trainctl
