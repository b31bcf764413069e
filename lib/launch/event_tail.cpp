// lib/launch/event_tail.cpp -- the file grows, or starts anew; an offset is all there is to remember.
#include "launch/event_tail.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainctl {

EventTail::EventTail(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code absent;
  const auto size = std::filesystem::file_size(file_, absent);
  if (!absent) offset_ = static_cast<int64_t>(size);
}

std::vector<RunEvent> EventTail::poll() {
  std::ifstream in(file_, std::ios::binary | std::ios::ate);
  if (!in) return {};
  if (static_cast<int64_t>(in.tellg()) < offset_) offset_ = 0;  // it was cut or replaced
  in.seekg(offset_);
  std::vector<RunEvent> events;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    offset_ += static_cast<int64_t>(line.size()) + 1;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("level") || !json.contains("text")) continue;
    if (!json["level"].is_string() || !json["text"].is_string()) continue;
    const auto step = json.find("step");
    events.push_back({json["level"].get<std::string>(), json["text"].get<std::string>(),
                      step != json.end() && step->is_number_integer() ? step->get<int64_t>() : 0});
  }
  return events;
}

}  // namespace trainctl
