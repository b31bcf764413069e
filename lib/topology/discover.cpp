// lib/topology/discover.cpp -- asks hwloc, the kernel and the clock.
#include "topology/discover.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

#include "base/error.h"
#include "topology/measure.h"

namespace trainctl {
namespace {

constexpr std::string_view kType = "node_types[0].";

struct DestroyTopology {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Hwloc = std::unique_ptr<hwloc_topology, DestroyTopology>;

Hwloc look() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail(ErrorKind::environment, "hwloc_topology_init failed: out of memory?");
  Hwloc topology(raw);
  if (hwloc_topology_load(raw) != 0)
    fail(ErrorKind::environment, "hwloc cannot read this machine's topology: is /sys mounted?");
  return topology;
}

int64_t count(const Hwloc& topology, hwloc_obj_type_t type) {
  return std::max(hwloc_get_nbobjs_by_type(topology.get(), type), 1);
}

std::vector<CacheConfig> caches(const Hwloc& topology) {
  std::vector<CacheConfig> result;
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology.get(), type, 0);
    if (!cache || cache->attr->cache.size == 0) continue;
    const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology.get(), cache->cpuset, HWLOC_OBJ_CORE);
    result.push_back({.level = static_cast<int64_t>(cache->attr->cache.depth),
                      .size_bytes = static_cast<int64_t>(cache->attr->cache.size),
                      .shared_by_cores = std::max(cores, 1)});
  }
  return result;
}

int64_t memory_bytes(const Hwloc& topology) {
  auto bytes = static_cast<int64_t>(hwloc_get_root_obj(topology.get())->total_memory);
  std::ifstream file("/sys/fs/cgroup/memory.max");  // a number, or "max"
  int64_t limit = 0;
  if (file >> limit && limit > 0) bytes = bytes > 0 ? std::min(bytes, limit) : limit;
  if (bytes <= 0) fail(ErrorKind::environment, "hwloc reports no memory on this machine: is /sys mounted?");
  return bytes;
}

struct Ports {
  int64_t count = 0;
  double bytes_per_s = 0;  // of the slowest
};

// Network interfaces backed by a device whose link is up and whose driver tells a rate (in Mb/s).
Ports network_ports() {
  Ports ports;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", ignored)) {
    if (!std::filesystem::exists(entry.path() / "device", ignored)) continue;
    std::ifstream file(entry.path() / "speed");
    double megabits = 0;
    if (!(file >> megabits) || megabits <= 0) continue;
    const double rate = megabits * 1e6 / 8;
    ports.bytes_per_s = ports.count == 0 ? rate : std::min(ports.bytes_per_s, rate);
    ++ports.count;
  }
  return ports;
}

int64_t largest_cache_total(const NodeType& type) {
  int64_t total = 0;
  for (const CacheConfig& cache : type.caches)
    total = std::max(total, cache.size_bytes * std::max<int64_t>(type.cores / cache.shared_by_cores, 1));
  return total;
}

void measure_rates(const DiscoverOptions& options, NodeType& type, TopologyConfig& topology) {
  const auto cores = static_cast<int>(type.cores);
  const double seconds = options.seconds_per_rate;
  type.peak_flops_f32 = measure_peak_flops(0, FlopType::f32, seconds).flops_per_s;
  type.peak_flops_bf16 = measure_peak_flops(0, FlopType::bf16, seconds).flops_per_s;
  // Three arrays of four times the caches, but never more than an eighth of the memory.
  const int64_t wanted = std::max<int64_t>(4 * largest_cache_total(type), int64_t{64} << 20);
  const int64_t array_bytes = std::min(wanted, type.memory_bytes / 24) / type.cores;
  type.memory_bandwidth_bytes_per_s = measure_memory_bandwidth(cores, array_bytes, seconds);
  type.link_bytes_per_s = measure_copy_rate(std::min<int64_t>(int64_t{64} << 20, type.memory_bytes / 16), seconds);
  for (const char* key : {"peak_flops_f32", "peak_flops_bf16", "memory_bandwidth_bytes_per_s", "link_bytes_per_s"})
    topology.origins.push_back({fmt::format("{}{}", kType, key), "measured"});
}

}  // namespace

TopologyConfig discover(const DiscoverOptions& options) {
  const Hwloc hwloc = look();
  TopologyConfig topology;
  topology.name = options.name;
  NodeType type;
  type.name = "host";
  type.sockets = count(hwloc, HWLOC_OBJ_PACKAGE);
  type.cores = std::min<int64_t>(count(hwloc, HWLOC_OBJ_CORE), usable_processors());
  type.sockets = std::min(type.sockets, type.cores);
  type.numa_nodes = count(hwloc, HWLOC_OBJ_NUMANODE);
  type.memory_bytes = memory_bytes(hwloc);
  type.caches = caches(hwloc);
  const Ports ports = network_ports();
  type.nics = ports.count;
  type.nic_bytes_per_s = ports.bytes_per_s;
  type.link_latency_s = 1e-6;

  for (const char* key : {"sockets", "cores", "numa_nodes", "memory_bytes", "nics", "nic_bytes_per_s"})
    topology.origins.push_back({fmt::format("{}{}", kType, key), "reported"});
  for (size_t i = 0; i < type.caches.size(); ++i)
    topology.origins.push_back({fmt::format("{}caches[{}].size_bytes", kType, i), "reported"});
  topology.origins.push_back({fmt::format("{}link_latency_s", kType), "typed"});
  if (options.measure) measure_rates(options, type, topology);

  topology.node_types.push_back(std::move(type));
  topology.nodes.push_back({options.host, "host", ""});
  return topology;
}

}  // namespace trainctl
