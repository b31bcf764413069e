// lib/trainer/metrics.cpp -- see the header.
#include "trainer/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace trainctl {
namespace {

// The step of a metrics line; -1 for a line that is none.
int64_t step_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return -1;
  return json["step"].get<int64_t>();
}

}  // namespace

void keep_steps(const std::filesystem::path& path, int64_t last_step) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      const int64_t step = step_of(line);
      if (step >= 0 && step <= last_step) kept += line + "\n";
    }
  }
  write_file_atomically(path, kept);
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t last_step) {
  keep_steps(path, last_step);
  writer_ = std::make_unique<LineWriter>(path);
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
