// lib/trainer/metrics.cpp -- see the header.
#include "trainer/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace trainctl {
namespace {

nlohmann::json parsed(const std::string& line) {
  return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

// The step of a metrics line; -1 for a line that is none.
int64_t step_of(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return -1;
  return json["step"].get<int64_t>();
}

constexpr size_t kShownGaps = 4;

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
  bool twice = false;
  std::string missing, other;
  const auto miss = [&](int64_t first, int64_t last) {
    if (++gaps <= kShownGaps) missing += (missing.empty() ? "" : ", ") + span(first, last);
  };
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = parsed(line);
    const int64_t step = step_of(json);
    if (step < 0 || step > last_step || !json.contains("loss")) continue;
    if (seen >= 0 && step > seen + 1) miss(seen + 1, step - 1);
    twice = twice || step <= seen;
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
  if (twice) remarks.push_back(fmt::format("{} has steps twice or out of order", path.string()));
  if (!other.empty()) remarks.push_back(other);
  return remarks;
}

void keep_steps(const std::filesystem::path& path, int64_t last_step) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      const int64_t step = step_of(parsed(line));
      if (step >= 0 && step <= last_step) kept += line + "\n";
    }
  }
  write_file_atomically(path, kept);
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step, LineWriter::MakeRoom make_room) {
  keep_steps(path, last_step);
  writer_ = std::make_unique<LineWriter>(path, false, std::move(make_room));
}

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
