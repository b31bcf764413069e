// lib/trainer/rank_agreement.h -- the engine's ranks as the checkpointer meets them.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "trainer/engine.h"

namespace trainctl {

// The ranks of this rank's host. `hosts[rank]` for every rank of `world`, which must outlive the result. Where a host's
// name is wrong, its ranks still hand each other the right bytes, over the network.
NodeRanks node_ranks(World& world, const std::vector<std::string>& hosts);

// `engine` must outlive the result.
Agreement rank_agreement(Engine& engine, const std::vector<std::string>& hosts);

}  // namespace trainctl
