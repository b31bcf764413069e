// lib/checkpoint/checkpoint_config.h -- the recipe's "checkpoint" section.
#pragma once

#include <cstdint>
#include <string>

#include "base/config_visitor.h"

namespace trainctl {

// A save is admitted when 1.1 x its bytes and this much more are free.
inline constexpr int64_t kCheckpointFreeSpaceMarginBytes = int64_t{1} << 30;

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
