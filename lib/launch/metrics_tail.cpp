// lib/launch/metrics_tail.cpp -- reads what is new in metrics.jsonl.
#include "launch/metrics_tail.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainctl {
namespace {

// JSON has no NaN: what was none is written as null.
double number(const nlohmann::json& line, const char* key) {
  const auto at = line.find(key);
  if (at != line.end() && at->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return at != line.end() && at->is_number() ? at->get<double>() : 0.0;
}

std::optional<MetricsLine> parse(const std::string& text) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) return std::nullopt;
  MetricsLine result;
  result.step = line["step"].get<int64_t>();
  if (line.contains("eval_loss")) {
    result.eval_loss = number(line, "eval_loss");
    return result;
  }
  if (!line.contains("loss")) return std::nullopt;
  result.loss = number(line, "loss");
  result.grad_norm = number(line, "grad_norm");
  result.lr = number(line, "lr");
  result.tokens_per_s = number(line, "tokens_per_s");
  result.step_s = number(line, "step_s");
  if (line.contains("mfu") && line["mfu"].is_number()) result.mfu = line["mfu"].get<double>();
  return result;
}

}  // namespace

MetricsTail::MetricsTail(std::filesystem::path file) : file_(std::move(file)) { take_lines(); }

std::vector<std::string> MetricsTail::take_lines() {
  std::ifstream in(file_, std::ios::binary);
  if (!in) return {};
  const auto last = static_cast<int64_t>(last_line_.size());
  std::string before(last_line_.size(), '\0');
  in.seekg(offset_ - last);
  in.read(before.data(), last);
  std::vector<size_t> earlier;
  if (in.gcount() != last || before != last_line_) {
    earlier = std::exchange(seen_, {});
    offset_ = 0;
    last_line_.clear();
    in.clear();
    in.seekg(0);
  }
  std::vector<std::string> lines;
  auto known = earlier.cbegin();  // a rewrite keeps the order and drops lines; after the first new one all are new
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const size_t hash = std::hash<std::string>()(line);
    known = std::find(known, earlier.cend(), hash);
    const bool repeats = known != earlier.cend();
    if (repeats) ++known;
    seen_.push_back(hash);
    offset_ += static_cast<int64_t>(line.size()) + 1;
    last_line_ = line + "\n";
    if (!repeats) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<MetricsLine> MetricsTail::poll() {
  std::vector<MetricsLine> result;
  for (const std::string& text : take_lines())
    if (std::optional<MetricsLine> line = parse(text)) result.push_back(*line);
  return result;
}

std::optional<int64_t> MetricsTail::last_step() const {
  std::ifstream in(file_, std::ios::binary);
  std::optional<int64_t> step;
  for (std::string text; std::getline(in, text);)
    if (const std::optional<MetricsLine> line = parse(text); line && !line->eval_loss) step = line->step;
  return step;
}

}  // namespace trainctl
