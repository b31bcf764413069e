// lib/topology/rank_map.cpp -- placement by filling nodes in order, and the warnings about what it costs.
#include "topology/rank_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

const NodeType& type_of(const TopologyConfig& topology, const Host& host) {
  return topology.node_types[static_cast<size_t>(host.type)];
}

std::string rate_text(double bytes_per_s) { return fmt::format("{:.3g} GB/s", bytes_per_s / 1e9); }

// How many ranks each host may take; checks ranks_per_node.
std::vector<int64_t> capacities(const TopologyConfig& topology, const std::vector<Host>& hosts,
                                const PlacementOptions& options) {
  std::vector<int64_t> result;
  for (const Host& host : hosts) {
    const int64_t slots = slots_of(type_of(topology, host));
    if (!options.ranks_per_node) {
      result.push_back(slots);
      continue;
    }
    const int64_t asked = *options.ranks_per_node;
    if (asked < 1) fail(ErrorKind::plan, fmt::format("ranks per node is {}; it must be at least 1", asked));
    if (asked > slots && !options.oversubscribe)
      fail(ErrorKind::plan,
           fmt::format("{} per node are more than the {} ({}) of host {}; legal: 1 to {}{}", counted(asked, "rank"),
                       counted(slots, "slot"), type_of(topology, host).devices.kind == "cuda" ? "devices" : "cores",
                       host.name, slots,
                       type_of(topology, host).devices.kind == "cuda" ? "" : ", or allow oversubscription"));
    result.push_back(asked);
  }
  return result;
}

int64_t sum(const std::vector<int64_t>& values) {
  int64_t total = 0;
  for (const int64_t v : values) total = checked_add(total, v);
  return total;
}

[[noreturn]] void refuse_too_few(const TopologyConfig& topology, const Mesh& mesh, const std::vector<Host>& hosts,
                                 int64_t slots, bool cuda) {
  const MeshDegrees& d = mesh.degrees();
  const int64_t unit = d.tensor * d.context * d.pipeline * d.expert;
  const int64_t fit = slots / unit * d.expert;  // the largest legal data_parallel
  const int64_t per_node = std::max<int64_t>(slots / std::ssize(hosts), 1);
  std::string legal = fit > 0 ? fmt::format("data_parallel {} ({})", fit, counted(slots / unit * unit, "rank"))
                              : fmt::format("lower degrees whose product is at most {}", slots);
  legal += fmt::format(", or {} like these", counted(ceil_div(mesh.world_size(), per_node), "node"));
  if (!cuda) legal += ", or oversubscription (--oversubscribe)";
  fail(ErrorKind::plan, fmt::format("{} not fit topology \"{}\": {}; it has {} ({}, {}). Legal: {}",
                                    counted(mesh.world_size(), "rank does", "ranks do"), topology.name, product_text(d),
                                    counted(slots, "slot"), counted(std::ssize(hosts), "node"),
                                    cuda ? "one rank per device" : "one rank per core", legal));
}

// Ranks of each host. Sums to at least the world.
std::vector<int64_t> fill(const Mesh& mesh, const std::vector<int64_t>& capacity, bool may_align) {
  const int64_t world = mesh.world_size();
  const int64_t tensor = mesh.size(Axis::tensor);
  if (may_align && mesh.order().front() == Axis::tensor) {
    std::vector<int64_t> aligned;
    for (const int64_t c : capacity) aligned.push_back(c / tensor * tensor);
    if (sum(aligned) >= world) return aligned;
  }
  return capacity;
}

void warn_tensor_groups(const TopologyConfig& topology, const Mesh& mesh, RankMap& map) {
  int64_t crossing = 0, total = 0;
  const HostPlace *first_from = nullptr, *first_to = nullptr;
  std::vector<int> first_group;
  double slowest = 0;
  bool known = true;
  for (const std::vector<int>& group : mesh.groups(Axis::tensor)) {
    ++total;
    bool crosses = false;
    for (size_t i = 1; i < group.size(); ++i) {
      const auto host_of = [&](int rank) { return map.ranks[static_cast<size_t>(rank)].host; };
      if (host_of(group[i]) == host_of(group[i - 1])) continue;
      const HostPlace& from = map.hosts[static_cast<size_t>(host_of(group[i - 1]))];
      const HostPlace& to = map.hosts[static_cast<size_t>(host_of(group[i]))];
      const double rate = network_bytes_per_s(topology, from, to);
      known = known && rate > 0;
      slowest = slowest == 0 ? rate : std::min(slowest, rate);
      if (!first_from) first_from = &from, first_to = &to, first_group = group;
      crosses = true;
    }
    crossing += crosses ? 1 : 0;
  }
  if (crossing == 0) return;
  const double link = type_of(topology, first_from->host).link_bytes_per_s;
  std::string cost = "its cost is not known: the topology gives no network rate";
  if (known) {
    cost = fmt::format("their traffic gets {} per rank over the network", rate_text(slowest));
    const double oversubscription = oversubscription_between(topology, first_from->host, first_to->host);
    if (oversubscription > 1) cost += fmt::format(" (switch oversubscription {:.3g} included)", oversubscription);
    if (link > 0)
      cost += fmt::format(" instead of {} inside a node, {:.1f} times slower", rate_text(link), link / slowest);
  }
  map.warnings.push_back(fmt::format(
      "{} of {} tensor groups leave their node (first: ranks {} to {} on {} and {}): {}. Keep tensor_parallel a "
      "divisor "
      "of the ranks per node, and \"tp\" first in the order",
      crossing, total, first_group.front(), first_group.back(), first_from->host.name, first_to->host.name, cost));
}

void warn_mixed_types(const TopologyConfig& topology, RankMap& map) {
  const Host& first = map.hosts.front().host;
  for (const HostPlace& place : map.hosts)
    if (place.host.type != first.type) {
      map.warnings.push_back(
          fmt::format("hosts of different types work together ({} is \"{}\", {} is \"{}\"): every "
                      "step takes the time of the slowest",
                      first.name, type_of(topology, first).name, place.host.name, type_of(topology, place.host).name));
      return;
    }
}

}  // namespace

const std::string& RankMap::host_name(int rank) const {
  return hosts[static_cast<size_t>(ranks[static_cast<size_t>(rank)].host)].host.name;
}

int64_t memory_limit_bytes_per_rank(const TopologyConfig& topology, const RankMap& map) {
  int64_t least = 0;
  for (const HostPlace& place : map.hosts) {
    const NodeType& type = topology.node_types[static_cast<size_t>(place.host.type)];
    const int64_t sharers = std::max<int64_t>(place.num_ranks, 1);
    int64_t limit = type.devices.memory_bytes;
    if (limit > 0 && sharers > place.slots) limit = limit * place.slots / sharers;
    if (limit == 0 && type.devices.kind == "cpu") limit = type.memory_bytes / sharers;
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  }
  return least;
}

double network_bytes_per_s(const TopologyConfig& topology, const HostPlace& from, const HostPlace& to) {
  const auto share = [&](const HostPlace& place) {
    const NodeType& type = type_of(topology, place.host);
    double port = type.nic_bytes_per_s;
    if (place.host.switch_index >= 0) {
      const double limit = topology.switches[static_cast<size_t>(place.host.switch_index)].bytes_per_s;
      if (limit > 0) port = std::min(port, limit);
    }
    return port * static_cast<double>(type.nics) / static_cast<double>(std::max(place.num_ranks, 1));
  };
  return std::min(share(from), share(to)) / oversubscription_between(topology, from.host, to.host);
}

RankMap plan_ranks(const TopologyConfig& topology, const Mesh& mesh, const PlacementOptions& options) {
  const std::vector<Host> hosts = expand_hosts(topology);
  ensure(!hosts.empty(), "plan_ranks needs a topology that passed check_topology");
  RankMap map;
  map.device_kind = type_of(topology, hosts.front()).devices.kind;
  for (const Host& host : hosts)
    if (type_of(topology, host).devices.kind != map.device_kind)
      fail(ErrorKind::plan,
           fmt::format("host {} computes on {} and host {} on {}; one job needs one device kind: split "
                       "the topology file",
                       hosts.front().name, map.device_kind, host.name, type_of(topology, host).devices.kind));
  const bool cuda = map.device_kind == "cuda";
  if (cuda && options.oversubscribe)
    fail(ErrorKind::plan, "oversubscription is for CPU ranks; a cuda device takes one rank: lower the number of ranks");

  const int64_t world = mesh.world_size();
  std::vector<int64_t> counts = fill(mesh, capacities(topology, hosts, options), !options.ranks_per_node);
  if (sum(counts) < world) {
    if (!options.oversubscribe || options.ranks_per_node) refuse_too_few(topology, mesh, hosts, sum(counts), cuda);
    for (int64_t i = 0; i < std::ssize(hosts); ++i)
      counts[static_cast<size_t>(i)] = even_split(world, std::ssize(hosts), i).size();
  }

  int next = 0;
  map.ranks.reserve(static_cast<size_t>(world));
  for (size_t h = 0; h < hosts.size() && next < world; ++h) {
    const int num_ranks = static_cast<int>(std::min(counts[h], world - next));
    if (num_ranks == 0) continue;
    const auto slots = static_cast<int>(slots_of(type_of(topology, hosts[h])));
    for (int local = 0; local < num_ranks; ++local)
      map.ranks.push_back({.rank = next + local,
                           .host = static_cast<int>(map.hosts.size()),
                           .local_rank = local,
                           .device = local % slots,
                           .coordinates = mesh.coordinates(next + local)});
    map.hosts.push_back({.host = hosts[h], .slots = slots, .first_rank = next, .num_ranks = num_ranks});
    if (num_ranks > slots && !map.oversubscribed) {
      map.oversubscribed = true;
      map.warnings.push_back(fmt::format("oversubscribed: {} ranks share the {} of host {}", num_ranks,
                                         counted(slots, "core"), hosts[h].name));
    }
    next += num_ranks;
  }
  warn_tensor_groups(topology, mesh, map);
  warn_mixed_types(topology, map);
  return map;
}

}  // namespace trainctl
