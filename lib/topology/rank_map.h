// lib/topology/rank_map.h -- which rank runs where: host, device, coordinates; and what that placement costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/mesh.h"
#include "topology/topology_config.h"

namespace trainctl {

struct RankPlace {
  int rank = 0;
  int host = 0;  // index into RankMap::hosts
  int local_rank = 0;
  int device = 0;  // local_rank, modulo the node's slots when oversubscribed
  Coordinates coordinates;
};

struct HostPlace {
  Host host;
  int64_t slots = 0;
  int first_rank = 0, num_ranks = 0;  // ranks [first_rank, first_rank + num_ranks)
};

struct PlacementOptions {
  std::optional<int64_t> ranks_per_node = std::nullopt;  // empty: as many as there are slots
  bool oversubscribe = false;                            // more ranks than slots, CPU nodes only
};

struct RankMap {
  std::vector<RankPlace> ranks;  // by rank
  std::vector<HostPlace> hosts;  // those that got ranks, in order
  std::string device_kind;       // cpu | cuda
  bool oversubscribed = false;   // some host has more ranks than slots
  std::vector<std::string> warnings;
  const std::string& host_name(int rank) const;
};

// Fills nodes in file order with consecutive ranks, so that the fastest axes of the mesh stay inside a node. When
// tensor is the fastest axis and the nodes have room, a node's last slots stay free rather than split a tensor group.
// Oversubscribed on request: ranks spread evenly over all nodes.
// Throws Error{plan}: more ranks than slots (with the numbers and what is legal), ranks_per_node below 1 or above a
// node's slots, nodes of different device kinds, oversubscription of cuda devices.
// Warns: tensor groups that leave their node (with rates), oversubscription, nodes of different types in one job.
// Requires a topology without faults.
RankMap plan_ranks(const TopologyConfig& topology, const Mesh& mesh, const PlacementOptions& options = {});

// What a rank of the tightest host may hold: the memory of its device; on CPU nodes devices.memory_bytes where given,
// else the node's memory / ranks on it. Oversubscribed ranks share what the slots have. 0: not known.
int64_t memory_limit_bytes_per_rank(const TopologyConfig& topology, const RankMap& map);

// What one rank gets when all ranks of its node send to another node at once: its share of the node's ports, limited by
// the switch port, divided by the oversubscription on the way. 0: not known (no ports described).
double network_bytes_per_s(const TopologyConfig& topology, const HostPlace& from, const HostPlace& to);

}  // namespace trainctl
