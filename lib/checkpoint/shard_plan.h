// lib/checkpoint/shard_plan.h -- what one rank writes of a catalog: files, tensors, offsets. A pure function of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/safetensors.h"
#include "tensor/catalog.h"

namespace trainctl {

struct PlannedTensor {
  size_t entry = 0;          // in the catalog
  int64_t derived = -1;      // entry of the bf16 tensor that must be the cast of this one; -1: none
  int64_t image_offset = 0;  // of its bytes, in the staging image
  int64_t bytes = 0;
};

struct PlannedFile {
  FileRecord record;                      // path, rank, bytes, header_bytes; no digests yet
  std::vector<SafetensorsTensor> header;  // in file order
  std::vector<PlannedTensor> tensors;     // in the same order
  int64_t image_offset = 0;               // of the file's first byte in the staging image
};

struct ShardPlan {
  std::vector<PlannedFile> files;     // none when the rank owns nothing
  std::vector<TensorRecord> records;  // for the receipt: own chunks, aliases, derived tensors
  int64_t image_bytes = 0;            // the staging image: every file as it will be on disk, each on a 4096 boundary
};

// Which entries: owners, no aliases; empty boxes only of tensors without elements. A bf16 "weight" whose f32 "master"
// has the same name and box in this catalog is derived: the receipt says so and nothing is written for it. Weights,
// masters and buffers go to data/model-r<rank>.safetensors, everything else to data/optim-r<rank>.safetensors; wide
// elements first, so that every tensor is aligned to its element. Throws Error{internal} for an entry that contradicts
// itself.
ShardPlan plan_shards(const StateCatalog& catalog, int64_t rank);

// Bytes of the staging area: the image, and what it takes to align it for direct writes wherever the area lies. The
// same for every rank number, step and attempt.
int64_t staging_bytes(const ShardPlan& plan);
int64_t staging_bytes(const StateCatalog& catalog);

// A text that is equal exactly when two catalogs give the same plan.
std::string catalog_fingerprint(const StateCatalog& catalog);

// Header metadata with a length that depends on no value.
std::map<std::string, std::string> shard_metadata(const std::string& run_id, const std::string& attempt, int64_t step,
                                                  int64_t rank);

}  // namespace trainctl
