// lib/topology/topology_config.cpp -- the fields of the topology file; reading and writing it.
#include "topology/topology_config.h"

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/config_io.h"
#include "base/error.h"

namespace trainctl {

void CacheConfig::describe(ConfigVisitor& v) {
  v.field("level", level, "cache level, 1 is nearest to the core", between(1, 5).required());
  v.field("size_bytes", size_bytes, "size of one cache", at_least(1).required());
  v.field("shared_by_cores", shared_by_cores, "cores that share one cache", at_least(1));
}

void DeviceConfig::describe(ConfigVisitor& v) {
  v.field("kind", kind, "what ranks compute on", one_of({"cpu", "cuda"}));
  v.field("count", count, "devices per node; for cpu, 0 means one per core", between(0, 65536));
  v.field("memory_bytes", memory_bytes, "memory of one device; for cpu, 0 means an equal share of the node's memory",
          at_least(0));
  v.field("peak_flops_f32", peak_flops_f32, "peak rate of one device in f32, FLOP/s; 0: not known", at_least(0));
  v.field("peak_flops_bf16", peak_flops_bf16, "peak rate of one device in bf16, FLOP/s; 0: not known", at_least(0));
  v.field("peak_flops_fp8", peak_flops_fp8, "peak rate of one device in fp8, FLOP/s; 0: not known", at_least(0));
}

void NodeType::describe(ConfigVisitor& v) {
  v.field("name", name, "what node lists call this type", Rule{}.required());
  v.field("sockets", sockets, "processor packages of the node", between(1, 1024));
  v.field("cores", cores, "physical cores of the node, all sockets together", between(1, 65536).required());
  v.field("numa_nodes", numa_nodes, "memory domains of the node", between(1, 4096));
  v.field("memory_bytes", memory_bytes, "main memory of the node", at_least(1).required());
  v.field("memory_bandwidth_bytes_per_s", memory_bandwidth_bytes_per_s,
          "main memory bandwidth of the node, all cores together; 0: not known", at_least(0));
  v.field("peak_flops_f32", peak_flops_f32, "peak rate of all CPU cores together in f32, FLOP/s; 0: not known",
          at_least(0));
  v.field("peak_flops_bf16", peak_flops_bf16, "peak rate of all CPU cores together in bf16, FLOP/s; 0: not known",
          at_least(0));
  v.field("caches", caches, "data caches of the processor");
  v.field("devices", devices, "what ranks compute on");
  v.field("link_bytes_per_s", link_bytes_per_s, "between two devices of the node, per direction; 0: not known",
          at_least(0));
  v.field("link_latency_s", link_latency_s, "latency between two devices of the node", at_least(0));
  v.field("nics", nics, "network ports of the node (rails)", between(0, 1024));
  v.field("nic_bytes_per_s", nic_bytes_per_s, "rate of one network port, per direction; 0: not known", at_least(0));
}

void NodeList::describe(ConfigVisitor& v) {
  v.field("names", names, "host names, Slurm-style ranges allowed: \"n[001-128]\"", Rule{}.required());
  v.field("type", type, "name of a node type", Rule{}.required());
  v.field("switch", switch_name, "name of the switch these nodes are wired to; empty: none");
}

void SwitchConfig::describe(ConfigVisitor& v) {
  v.field("name", name, "what nodes and other switches call this switch", Rule{}.required());
  v.field("oversubscription", oversubscription, "downlink capacity / uplink capacity", at_least(1));
  v.field("bytes_per_s", bytes_per_s, "rate of one port, per direction; 0: not known", at_least(0));
  v.field("uplink", uplink, "name of the switch above this one; empty: none");
}

void StorageConfig::describe(ConfigVisitor& v) {
  v.field("name", name, "what people call this storage", Rule{}.required());
  v.field("path", path, "where nodes mount it", Rule{}.required());
  v.field("write_bytes_per_s", write_bytes_per_s, "of all writers together; 0: not known", at_least(0));
  v.field("read_bytes_per_s", read_bytes_per_s, "of all readers together; 0: not known", at_least(0));
}

void OriginNote::describe(ConfigVisitor& v) {
  v.field("key", key, "dotted path of a number in this file: \"node_types[0].peak_flops_f32\"", Rule{}.required());
  v.field("origin", origin, "where the number came from", one_of({"measured", "reported", "typed"}).required());
}

void TopologyConfig::describe(ConfigVisitor& v) {
  v.field("name", name, "what people call this system", Rule{}.required());
  v.field("node_types", node_types, "kinds of nodes", Rule{}.required());
  v.field("nodes", nodes, "the nodes, in the order in which ranks fill them", Rule{}.required());
  v.field("switches", switches, "network switches");
  v.field("storage", storage, "file systems for data and checkpoints");
  v.field("origins", origins, "where numbers of this file came from");
}

TopologyConfig topology_from_text(std::string_view json, std::string_view source_name) {
  TopologyConfig topology;
  ConfigSource source;
  source.source = std::string(source_name);
  ParsedJson parsed = parse_json_lenient(json);
  std::vector<Fault> faults = std::move(parsed.faults);
  if (parsed.complete) {
    read_config(parsed.root, topology, source, faults);
    for (Fault& f : check_topology(topology, source)) faults.push_back(std::move(f));
  }
  refuse_faults(source_name, faults);
  return topology;
}

TopologyConfig load_topology(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& e) {
    fail(e.kind(),
         fmt::format("the topology: {}; give the path of a topology file (JSON), as trainctl topology discover "
                     "writes it",
                     e.what()));
  }
  return topology_from_text(text, path.string());
}

std::string to_json_text(const TopologyConfig& topology) { return write_config(topology).dump(2) + "\n"; }

}  // namespace trainctl
