// lib/checkpoint/checkpoint_config.h -- the recipe's "checkpoint" section.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/config_visitor.h"

namespace trainctl {

// What must be free beside 1.1 x the bytes of a save, for logs and whoever shares the disk: as much as the save, at
// least 64 MiB and at most 1 GiB. Not asked for by the last save of a run, which nothing follows.
inline constexpr int64_t free_space_margin(int64_t bytes) {
  return std::clamp(bytes, int64_t{64} << 20, int64_t{1} << 30);
}

struct CheckpointConfig {
  int64_t every_steps = 0;                 // 0: only the final state
  int64_t keep = 3;                        // newest usable ones; older ones are removed after a newer one is committed
  int64_t keep_every_steps = 0;            // training states of these steps stay for good; 0: none
  bool async = true;                       // write while training goes on
  std::string copy = "lazy";               // lazy: copy beside the next forward and backward; blocking: before it
  std::string verify_after_save = "none";  // none | readback
  bool at_end = true;                      // save the state after the last step
  double deadline_s = 600;                 // for all ranks' receipts
  int64_t stop_after_failures = 0;         // saves that fail one after the other end the run; 0: never
  int64_t write_limit_bytes_per_s = 0;     // of each rank's data; 0: none
  std::string io = "auto";  // auto: io_uring and O_DIRECT where granted; threads: no io_uring; buffered: neither
  void describe(ConfigVisitor& v);
};

}  // namespace trainctl
