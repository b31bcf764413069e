// lib/launch/event_tail.h -- follows events.jsonl: what rank 0 wants the launcher to show at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trainctl {

struct RunEvent {
  std::string level;  // "note" | "warning" | kReadyEvent | kStartEvent | kSavedEvent
  std::string text;
  int64_t step = 0;  // done when it was told
};

class EventTail {
 public:
  // Events that the file has now belong to an earlier run and are not returned.
  explicit EventTail(std::filesystem::path file);
  // Complete events added since the last call, in order; lines that are none are passed over. A file that has become
  // shorter is read from its start.
  std::vector<RunEvent> poll();

 private:
  std::filesystem::path file_;
  int64_t offset_ = 0;
};

}  // namespace trainctl
