// lib/topology/topology_check.cpp -- rules between fields of a topology, and what can be derived from a sound one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/config_io.h"
#include "base/error.h"
#include "base/units.h"
#include "topology/hostlist.h"
#include "topology/topology_config.h"

namespace trainctl {
namespace {

class Checker {
 public:
  Checker(const TopologyConfig& topology, const ConfigSource& source) : topology_(topology), source_(source) {}

  std::vector<Fault> run() {
    check_node_types();
    check_switches();
    check_nodes();
    std::set<std::string> storage;
    for (size_t i = 0; i < topology_.storage.size(); ++i)
      claim_name(storage, topology_.storage[i].name, fmt::format("storage[{}].name", i));
    check_origins();
    return std::move(faults_);
  }

 private:
  // Of a field that could not be read this is a consequence, and no fault of its own.
  void add(std::string path, std::string message) {
    if (!source_.usable(path)) return;
    faults_.push_back(source_.fault(std::move(path), std::move(message)));
  }

  void claim_name(std::set<std::string>& taken, const std::string& name, const std::string& path) {
    if (name.empty())
      add(path, "is empty; give it a name");
    else if (!taken.insert(name).second)
      add(path, fmt::format("\"{}\" is used twice; names must be unique", name));
  }

  // Whether `name` is among `known`; otherwise a fault with the nearest.
  void refer(const std::set<std::string>& known, const std::string& name, std::string_view what, std::string path) {
    if (known.contains(name)) return;
    const std::vector<std::string> names(known.begin(), known.end());
    const std::string close = nearest(name, names);
    add(std::move(path),
        fmt::format("\"{}\" names no {}; {}{}", name, what,
                    names.empty() ? "there are none" : fmt::format("known: {}", fmt::join(names, ", ")),
                    close.empty() ? "" : fmt::format("; did you mean \"{}\"?", close)));
  }

  // Whether every name that could be referred to is known.
  bool all_named(std::string_view array, size_t count) const {
    bool known = source_.usable(array);
    for (size_t i = 0; i < count; ++i) known = known && source_.usable(fmt::format("{}[{}].name", array, i));
    return known;
  }

  void check_node_types() {
    if (topology_.node_types.empty()) add("node_types", "is empty; describe at least one node type");
    for (size_t i = 0; i < topology_.node_types.size(); ++i) {
      const NodeType& type = topology_.node_types[i];
      const std::string path = fmt::format("node_types[{}]", i);
      claim_name(types_, type.name, path + ".name");
      if (type.cores < type.sockets)
        add(path + ".cores", fmt::format("is {}, fewer than the {}; it counts the cores of the whole node, so "
                                         "at least {}",
                                         type.cores, counted(type.sockets, "socket"), type.sockets));
      if (type.devices.kind == "cuda" && type.devices.count < 1)
        add(path + ".devices.count", "is 0; a node type with cuda devices needs at least 1");
      if (type.devices.kind == "cuda" && type.devices.memory_bytes < 1)
        add(path + ".devices.memory_bytes", "is 0; cuda devices need their memory size, for example 80000000000");
      if (type.nics > 0 && type.nic_bytes_per_s <= 0)
        add(path + ".nic_bytes_per_s",
            fmt::format("is 0 with {}; give the rate of one port, for example 12.5e9 for 100 Gb/s",
                        counted(type.nics, "network port")));
    }
  }

  void check_switches() {
    for (size_t i = 0; i < topology_.switches.size(); ++i)
      claim_name(switches_, topology_.switches[i].name, fmt::format("switches[{}].name", i));
    switches_known_ = all_named("switches", topology_.switches.size());
    std::map<std::string, std::string> uplink;
    for (size_t i = 0; i < topology_.switches.size(); ++i) {
      const SwitchConfig& s = topology_.switches[i];
      if (switches_known_ && !s.uplink.empty())
        refer(switches_, s.uplink, "switch", fmt::format("switches[{}].uplink", i));
      uplink.emplace(s.name, s.uplink);
    }
    for (size_t i = 0; i < topology_.switches.size(); ++i) {
      const std::string& start = topology_.switches[i].name;
      std::string at = uplink[start];
      for (size_t steps = 0; !at.empty() && at != start && steps < uplink.size(); ++steps) {
        const auto next = uplink.find(at);
        at = next == uplink.end() ? "" : next->second;
      }
      if (!at.empty() && at == start) {
        add(fmt::format("switches[{}].uplink", i),
            fmt::format("the uplinks of \"{}\" lead back to itself; one switch must be the top (uplink \"\")", start));
        return;  // every member of the cycle would say the same
      }
    }
  }

  void check_nodes() {
    if (topology_.nodes.empty()) add("nodes", "is empty; list at least one node");
    const bool types_known = all_named("node_types", topology_.node_types.size());
    std::set<std::string> hosts;
    for (size_t i = 0; i < topology_.nodes.size(); ++i) {
      const NodeList& list = topology_.nodes[i];
      const std::string path = fmt::format("nodes[{}]", i);
      if (types_known) refer(types_, list.type, "node type", path + ".type");
      if (switches_known_ && !list.switch_name.empty()) refer(switches_, list.switch_name, "switch", path + ".switch");
      try {
        for (const std::string& host : expand_hostlist(list.names))
          if (!hosts.insert(host).second) {
            add(path + ".names", fmt::format("host \"{}\" is listed twice; each host belongs to one place", host));
            break;
          }
      } catch (const Error& e) {
        add(path + ".names", e.what());
      }
      if (hosts.size() > kMaxHosts) {
        add(path + ".names", fmt::format("all lists together name more than {} hosts", kMaxHosts));
        break;
      }
    }
  }

  void check_origins() {
    if (topology_.origins.empty()) return;
    const nlohmann::ordered_json written = write_config(topology_);
    std::set<std::string> noted;
    for (size_t i = 0; i < topology_.origins.size(); ++i) {
      const std::string& key = topology_.origins[i].key;
      const std::string path = fmt::format("origins[{}].key", i);
      claim_name(noted, key, path);
      if (!key.empty() && source_.usable(key) && !names_a_number(written, key))
        add(path,
            fmt::format("\"{}\" is no number of this file; write a path like \"node_types[0].peak_flops_f32\"", key));
    }
  }

  // Walks a dotted path with [index] parts.
  static bool names_a_number(const nlohmann::ordered_json& root, std::string_view key) {
    const nlohmann::ordered_json* at = &root;
    while (!key.empty()) {
      if (key.front() == '.') key.remove_prefix(1);
      if (!key.empty() && key.front() == '[') {
        const size_t close = key.find(']');
        if (close == std::string_view::npos || close < 2 || close > 7) return false;
        const std::string_view digits = key.substr(1, close - 1);
        if (digits.find_first_not_of("0123456789") != std::string_view::npos) return false;
        const auto index = static_cast<size_t>(std::stol(std::string(digits)));
        if (!at->is_array() || index >= at->size()) return false;
        at = &(*at)[index];
        key.remove_prefix(close + 1);
      } else {
        const std::string_view word = key.substr(0, key.find_first_of(".["));
        if (!at->is_object() || !at->contains(word)) return false;
        at = &(*at)[std::string(word)];
        key.remove_prefix(word.size());
      }
    }
    return at->is_number();
  }

  const TopologyConfig& topology_;
  const ConfigSource& source_;
  std::vector<Fault> faults_;
  std::set<std::string> types_, switches_;
  bool switches_known_ = true;
};

template <class T>
int index_of(const std::vector<T>& items, std::string_view name) {
  const auto at = std::find_if(items.begin(), items.end(), [&](const T& item) { return item.name == name; });
  return at == items.end() ? -1 : static_cast<int>(at - items.begin());
}

}  // namespace

std::vector<Fault> check_topology(const TopologyConfig& topology, const ConfigSource& source) {
  return Checker(topology, source).run();
}

std::vector<Host> expand_hosts(const TopologyConfig& topology) {
  std::vector<Host> hosts;
  for (const NodeList& list : topology.nodes) {
    const int type = index_of(topology.node_types, list.type);
    ensure(type >= 0, "expand_hosts needs a topology that passed check_topology");
    const int switch_index = index_of(topology.switches, list.switch_name);
    for (std::string& name : expand_hostlist(list.names)) hosts.push_back({std::move(name), type, switch_index});
  }
  return hosts;
}

int64_t slots_of(const NodeType& type) {
  return type.devices.kind == "cpu" && type.devices.count == 0 ? type.cores : type.devices.count;
}

int64_t device_memory_bytes(const NodeType& type) {
  if (type.devices.memory_bytes > 0) return type.devices.memory_bytes;
  return type.devices.kind == "cpu" ? type.memory_bytes / slots_of(type) : 0;
}

std::string_view origin_of(const TopologyConfig& topology, std::string_view key) {
  for (const OriginNote& note : topology.origins)
    if (note.key == key) return note.origin;
  return "";
}

double oversubscription_between(const TopologyConfig& topology, const Host& a, const Host& b) {
  // From the host's switch to the top.
  const auto path_up = [&](int at) {
    std::vector<int> path;
    while (at >= 0) {
      ensure(path.size() < topology.switches.size(), "oversubscription_between needs uplinks without a cycle");
      path.push_back(at);
      at = index_of(topology.switches, topology.switches[static_cast<size_t>(at)].uplink);
    }
    return path;
  };
  const std::vector<int> up_a = path_up(a.switch_index), up_b = path_up(b.switch_index);
  const auto climb = [&](const std::vector<int>& from, const std::vector<int>& other) {
    double factor = 1;
    for (const int s : from) {
      if (std::find(other.begin(), other.end(), s) != other.end()) break;
      factor *= topology.switches[static_cast<size_t>(s)].oversubscription;
    }
    return factor;
  };
  return std::max(climb(up_a, up_b), climb(up_b, up_a));
}

}  // namespace trainctl
