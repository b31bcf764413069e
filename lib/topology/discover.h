// lib/topology/discover.h -- writes a topology of this machine: structure from hwloc, rates by measuring.
#pragma once

#include <string>

#include "topology/topology_config.h"

namespace trainctl {

struct DiscoverOptions {
  std::string name = "this_machine";
  bool measure = true;             // off: rates stay 0 ("not known")
  double seconds_per_rate = 0.2;   // how long each of the four measurements runs
  std::string host = "localhost";  // what the node list calls this machine
};

// One node type with the sockets, cores, caches, memory domains and memory this process may use (affinity and control
// group limits respected), network ports that are up with their reported rate, and measured rates: FLOP peak in f32 and
// bf16 over all cores, memory bandwidth over all cores, one core's copy rate as the link between two ranks. Every
// number has an origin. The result passes check_topology. Throws Error{environment} when hwloc cannot look.
TopologyConfig discover(const DiscoverOptions& options = {});

}  // namespace trainctl
