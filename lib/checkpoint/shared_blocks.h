// lib/checkpoint/shared_blocks.h -- blocks that several ranks of a node need: one of them reads each from the disk and
// hands it to the others, who verify it again before they use it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/block_reader.h"

namespace trainctl {

// Who reads what, on one node. Blocks are numbered through the files of a manifest, ranks by their place on the node.
struct SharingPlan {
  struct Step {
    int64_t block = 0;
    size_t reader = 0;
  };
  std::vector<Step> shared;                 // what at least two ranks need, in the order in which it is handed over
  std::vector<std::vector<int64_t>> alone;  // per rank: what it alone needs, ascending
};

// `needs[rank][block]`, `bytes[block]`. Each shared block gets the rank with the least to read among those that need
// it, so that all end together; neighbouring blocks are read at about the same time. A pure function: every rank of the
// node makes the same plan.
SharingPlan plan_sharing(const std::vector<std::vector<bool>>& needs, const std::vector<int64_t>& bytes);

// Collective over the world of `ranks`, whether or not a rank needs any block. As reader.read(wanted), without the
// promise of an order: take(block, data, bytes) once for each block of `wanted` (of `files`, a manifest's), after its
// digest was verified here. A block that several ranks of this node need is read by one of them. Returns the bytes that
// came from other ranks.
//
// `fault` is why this rank cannot say what it needs ("": it can); `wanted` is then not looked at. A rank whose reading
// fails hands out what it could not read all the same, as bytes of no meaning, which the others find wrong: so every
// rank comes to the end, and then all return or all throw. Error{checkpoint}: `fault`, or a failing read
// (reader.damage() says what is damaged on the disk). Error{rank_failed}: the trouble of another rank, or a block that
// came with another digest than the manifest's, naming the rank that it came from.
using TakeBlock = std::function<void(const BlockRef& block, const char* data, int64_t bytes)>;
int64_t read_shared_blocks(const Agreement& ranks, const std::vector<FileRecord>& files, BlockReader& reader,
                           const std::vector<BlockRef>& wanted, const std::string& fault, const TakeBlock& take);

}  // namespace trainctl
