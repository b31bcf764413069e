// lib/topology/topology_config.h -- the topology file: what the machines are, how they are wired, and who says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/config_visitor.h"

namespace trainctl {

struct CacheConfig {
  int64_t level = 1;
  int64_t size_bytes = 0;
  int64_t shared_by_cores = 1;
  void describe(ConfigVisitor& v);
};

// What ranks run on. Rates are of one device, in FLOP/s (a fused multiply-add counts as two); 0: not known.
struct DeviceConfig {
  std::string kind = "cpu";  // cpu | cuda
  int64_t count = 0;         // devices per node; cpu: 0 means one per core
  int64_t memory_bytes = 0;  // of one device; cpu: 0 means the node's memory shared equally
  double peak_flops_f32 = 0, peak_flops_bf16 = 0, peak_flops_fp8 = 0;
  void describe(ConfigVisitor& v);
};

struct NodeType {
  std::string name;
  int64_t sockets = 1;
  int64_t cores = 1;       // of the node
  int64_t numa_nodes = 1;  // of the node
  int64_t memory_bytes = 0;
  double memory_bandwidth_bytes_per_s = 0;         // of the node; 0: not known
  double peak_flops_f32 = 0, peak_flops_bf16 = 0;  // of all CPU cores together; 0: not known
  std::vector<CacheConfig> caches;
  DeviceConfig devices;
  double link_bytes_per_s = 0;  // between two devices of the node, per direction; 0: not known
  double link_latency_s = 0;
  int64_t nics = 0;            // network ports of the node (rails)
  double nic_bytes_per_s = 0;  // of one port, per direction
  void describe(ConfigVisitor& v);
};

struct NodeList {
  std::string names;        // Slurm-style: "n[001-128]"
  std::string type;         // a node type's name
  std::string switch_name;  // key "switch"; "": not wired to any
  void describe(ConfigVisitor& v);
};

struct SwitchConfig {
  std::string name;
  double oversubscription = 1;  // downlink capacity / uplink capacity, >= 1
  double bytes_per_s = 0;       // of one port; 0: not known
  std::string uplink;           // the parent switch; "": a top switch
  void describe(ConfigVisitor& v);
};

struct StorageConfig {
  std::string name, path;
  double write_bytes_per_s = 0, read_bytes_per_s = 0;
  void describe(ConfigVisitor& v);
};

// Where a number came from: measured on the machine, reported by it, or typed by a person.
struct OriginNote {
  std::string key;  // dotted path: "node_types[0].peak_flops_f32"
  std::string origin = "typed";
  void describe(ConfigVisitor& v);
};

struct TopologyConfig {
  std::string name;
  std::vector<NodeType> node_types;
  std::vector<NodeList> nodes;
  std::vector<SwitchConfig> switches;
  std::vector<StorageConfig> storage;
  std::vector<OriginNote> origins;
  void describe(ConfigVisitor& v);
};

// One host of the expanded node lists, in file order. Indices are into `node_types` and `switches` (-1: none).
struct Host {
  std::string name;
  int type = 0;
  int switch_index = -1;
};

// Strict: every fault of keys, types, rules and references at once. Throws Error{input} (unreadable) or Error{config}.
TopologyConfig load_topology(const std::filesystem::path& path);
TopologyConfig topology_from_text(std::string_view json, std::string_view source);  // the same, of a text
std::string to_json_text(const TopologyConfig& topology);                           // indented, every field explicit

// Faults between fields: unknown or doubled names, switch cycles, bad host lists, hosts listed twice, sizes that do not
// go together, origins of keys that do not exist. A field that `source` calls broken has no faults here, nor has what
// refers to it. Never throws.
std::vector<Fault> check_topology(const TopologyConfig& topology, const ConfigSource& source);

// The functions below require a topology without faults.
std::vector<Host> expand_hosts(const TopologyConfig& topology);
int64_t slots_of(const NodeType& type);             // ranks a node offers: its devices, or its cores
int64_t device_memory_bytes(const NodeType& type);  // of one slot; 0: not known
std::string_view origin_of(const TopologyConfig& topology, std::string_view key);  // "" when not noted

// By what factor traffic from one host to another may be slowed where uplinks are thinner than downlinks: the product
// of the oversubscription of the switches it leaves upwards, the worse of the two sides. 1 on the same switch.
double oversubscription_between(const TopologyConfig& topology, const Host& a, const Host& b);

}  // namespace trainctl
