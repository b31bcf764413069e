// apps/trainctl/cmd_topology.cpp -- `trainctl topology discover|show|check`: hardware topology files.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/config_io.h"
#include "base/error.h"
#include "base/units.h"
#include "cli.h"
#include "topology/discover.h"
#include "topology/topology_config.h"

namespace trainctl {
namespace {

struct DiscoverArguments {
  DiscoverOptions options;
  std::string output;
  bool no_measure = false, force = false;
};

std::string rate(double value, std::string_view unit) {
  return value > 0 ? human_count(value) + std::string(unit) : std::string("not known");
}

std::string with_origin(const TopologyConfig& topology, const std::string& key, const std::string& text) {
  const std::string_view origin = origin_of(topology, key);
  return origin.empty() ? text : fmt::format("{} ({})", text, origin);
}

std::string describe_type(const TopologyConfig& topology, size_t index) {
  const NodeType& t = topology.node_types[index];
  const std::string path = fmt::format("node_types[{}].", index);
  const auto line = [&](std::string_view label, const std::string& key, const std::string& text) {
    return fmt::format("  {:<18}{}\n", label, with_origin(topology, path + key, text));
  };
  std::string out = fmt::format("node type {}\n", t.name);
  out += line("cores", "cores",
              fmt::format("{} in {}, {}", t.cores, counted(t.sockets, "socket"), counted(t.numa_nodes, "NUMA node")));
  out += line("memory", "memory_bytes", human_bytes(t.memory_bytes));
  out += line("memory bandwidth", "memory_bandwidth_bytes_per_s", rate(t.memory_bandwidth_bytes_per_s, "B/s"));
  out += line("peak f32", "peak_flops_f32", rate(t.peak_flops_f32, "FLOP/s"));
  out += line("peak bf16", "peak_flops_bf16", rate(t.peak_flops_bf16, "FLOP/s"));
  for (const CacheConfig& c : t.caches)
    out += fmt::format("  {:<18}{}, shared by {}\n", fmt::format("L{} cache", c.level), human_bytes(c.size_bytes),
                       counted(c.shared_by_cores, "core"));
  out += line("slots", "devices.count",
              fmt::format("{} x {}, {} each", slots_of(t), t.devices.kind, human_bytes(device_memory_bytes(t))));
  if (t.link_bytes_per_s > 0) out += line("link", "link_bytes_per_s", rate(t.link_bytes_per_s, "B/s"));
  if (t.nics > 0)
    out += line("network", "nic_bytes_per_s", fmt::format("{} x {}", t.nics, rate(t.nic_bytes_per_s, "B/s")));
  return out;
}

std::string describe_topology(const TopologyConfig& topology) {
  std::string out = fmt::format("topology {}\n", topology.name);
  for (size_t i = 0; i < topology.node_types.size(); ++i) out += describe_type(topology, i);
  for (const NodeList& n : topology.nodes)
    out += fmt::format("nodes {} of type {}{}\n", n.names, n.type,
                       n.switch_name.empty() ? "" : " on switch " + n.switch_name);
  for (const SwitchConfig& s : topology.switches)
    out += fmt::format("switch {}: ports {}, oversubscription {}{}\n", s.name, rate(s.bytes_per_s, "B/s"),
                       s.oversubscription, s.uplink.empty() ? "" : ", uplink " + s.uplink);
  for (const StorageConfig& s : topology.storage)
    out += fmt::format("storage {} at {}: write {}, read {}\n", s.name, s.path, rate(s.write_bytes_per_s, "B/s"),
                       rate(s.read_bytes_per_s, "B/s"));
  int64_t slots = 0;
  const std::vector<Host> hosts = expand_hosts(topology);
  for (const Host& h : hosts) slots += slots_of(topology.node_types[static_cast<size_t>(h.type)]);
  return out + fmt::format("in all {}, {}\n", counted(std::ssize(hosts), "host"), counted(slots, "slot"));
}

void add_discover(CLI::App& parent) {
  auto a = std::make_shared<DiscoverArguments>();
  CLI::App* cmd = parent.add_subcommand("discover", "Describe this machine: structure, and measured rates");
  cmd->add_option("-o,--output", a->output, "File to write; default: standard output");
  cmd->add_option("--name", a->options.name, "Name of the topology")->capture_default_str();
  cmd->add_option("--host", a->options.host, "What the node list calls this machine")->capture_default_str();
  cmd->add_flag("--force", a->force, "Replace the file when it is there already");
  cmd->add_flag("--no-measure", a->no_measure, "Structure only; rates stay unknown");
  add_examples(*cmd, {"trainctl topology discover --output here.json"});
  cmd->callback([a] {
    a->options.measure = !a->no_measure;
    std::error_code ignored;
    if (!a->force && std::filesystem::is_regular_file(a->output, ignored))  // not: /dev/stdout, a pipe
      fail(ErrorKind::usage,
           fmt::format("{} would be overwritten; use --force to replace it, or choose another --output", a->output));
    const std::string text = to_json_text(discover(a->options));
    if (a->output.empty()) {
      print_out(text.ends_with('\n') ? text : text + "\n");
      return;
    }
    write_file_atomically(a->output, text.ends_with('\n') ? text : text + "\n");
    print_out("wrote " + a->output + "\n");
  });
}

void add_show(CLI::App& parent) {
  struct Arguments {
    std::string file;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* cmd = parent.add_subcommand("show", "Show a topology file in words");
  cmd->add_option("topology", a->file, "Topology file (JSON)")->required();
  cmd->add_flag("--json", a->json, "Every field explicit, as JSON");
  add_examples(*cmd, {"trainctl topology show here.json"});
  cmd->callback([a] {
    const TopologyConfig topology = load_topology(a->file);
    if (a->json)
      print_json(write_config(topology));
    else
      print_out(describe_topology(topology));
  });
}

void add_check(CLI::App& parent) {
  auto file = std::make_shared<std::string>();
  CLI::App* cmd = parent.add_subcommand("check", "List every fault of a topology file");
  cmd->add_option("topology", *file, "Topology file (JSON)")->required();
  add_examples(*cmd, {"trainctl topology check here.json"});
  cmd->callback([file] {
    const TopologyConfig topology = load_topology(*file);
    print_out(fmt::format("{}: no faults, {}\n", *file, counted(std::ssize(expand_hosts(topology)), "host")));
  });
}

}  // namespace

void add_topology_command(CLI::App& app) {
  CLI::App* topology = app.add_subcommand("topology", "Describe hardware: discover, show and check topology files");
  topology->require_subcommand(1);
  add_discover(*topology);
  add_show(*topology);
  add_check(*topology);
  add_examples(*topology, {"trainctl topology discover --output here.json", "trainctl topology show here.json"});
}

}  // namespace trainctl
