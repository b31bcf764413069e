// lib/checkpoint/staging.h -- the staging area: one block of memory, allocated and touched once, that holds the file
// images of a rank's shards. stage() is all that a save costs the training thread.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/shard_plan.h"
#include "device/arena.h"
#include "tensor/catalog.h"

namespace trainctl {

class StagingArea {
 public:
  // Takes staging_bytes(catalog) from `arena` (category other), which must hand out memory the host can read; on a
  // shape-only device the same bytes are counted and nothing is touched.
  StagingArea(Arena& arena, const StateCatalog& catalog, int64_t rank);

  // Copies every planned tensor into the image by value, with up to `threads` threads when there is much to copy.
  // `catalog` must have the fingerprint of the one given at construction. Returns "" or why the state cannot be saved
  // (a bf16 weight that is not the cast of its master).
  std::string stage(const StateCatalog& catalog, int threads);

  const ShardPlan& plan() const { return plan_; }
  const std::string& fingerprint() const { return fingerprint_; }
  char* image() const { return image_; }  // on a boundary of kDirectAlignment

 private:
  Device& device_;
  ShardPlan plan_;
  std::string fingerprint_;
  Tensor memory_;
  char* image_ = nullptr;
};

}  // namespace trainctl
