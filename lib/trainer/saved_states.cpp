// lib/trainer/saved_states.cpp -- see the header.
#include "trainer/saved_states.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace trainctl {

std::string lost_states(const RunPaths& paths) {
  std::ifstream events(paths.events(), std::ios::binary);
  int64_t saved = 0;
  for (std::string line; std::getline(events, line);) {
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("step") || !event["step"].is_number_integer()) continue;
    const auto step = event["step"].get<int64_t>();
    const auto level = event.value("level", nlohmann::json());
    if (level == kStartEvent && step == 0) saved = 0;
    if (level == kSavedEvent) saved = step;
  }
  if (saved == 0) return "";
  return fmt::format(
      "there is no checkpoint in {}, but the run saved one of step {} ({}): is the disk that holds them mounted, were "
      "they moved away?\nwhat to do: put them back, or name one elsewhere (--resume CHECKPOINT); to start afresh "
      "choose "
      "another run directory (--run-dir)",
      paths.checkpoints().string(), saved, paths.events().string());
}

}  // namespace trainctl
