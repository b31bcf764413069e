// lib/checkpoint/load_cost.h -- what loading a checkpoint moved.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

struct LoadCost {
  struct Bytes {
    int64_t read = 0;      // from the disk: whole blocks
    int64_t received = 0;  // whole blocks that another rank of the node read and handed over
    int64_t needed = 0;    // elements of the boxes
  };
  Bytes rank, world;    // of this rank; of all ranks together, where a node reads a block once that its ranks need
  int64_t stored = 0;   // of the checkpoint's data files
  std::string io_path;  // "io_uring, direct", and why not so; "" when this rank read nothing
};

}  // namespace trainctl
