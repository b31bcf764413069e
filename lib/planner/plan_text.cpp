// lib/planner/plan_text.cpp -- a plan for people: tables of at most 100 columns.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "planner/plan.h"
#include "planner/text_table.h"
#include "topology/hostlist.h"

namespace trainctl {
namespace {

const char* on_off(bool on) { return on ? "on" : "off"; }

std::string heading(std::string_view text) { return fmt::format("\n{}\n", text); }

std::string decay_text(const Plan& plan) {
  std::string text;
  for (const DecayGroup& d : plan.decay)
    text += fmt::format("{}{}: {}, {} parameters", text.empty() ? "" : "; ",
                        &d == plan.decay.data() ? fmt::format("weight decay {}", d.weight_decay) : "none",
                        counted(d.tensors, "tensor"), human_count(static_cast<double>(d.elements)));
  return text;
}

std::string summary_text(const Plan& plan) {
  const Recipe& r = plan.recipe;
  const ParallelismConfig& p = r.parallelism;
  const std::string where = plan.topology.empty() ? "no topology given" : "topology " + plan.topology;
  std::string out = wrapped("", fmt::format("plan of {}: {}, {}, {}, {}", r.name, counted(plan.world_size, "rank"),
                                            r.runtime.device, r.runtime.precision, where));
  out += wrapped("  layout    ",
                 fmt::format("tensor_parallel {}{} x pipeline_parallel {} x context_parallel {} x data_parallel {}; "
                             "order {}",
                             p.tensor_parallel, p.sequence_parallel ? " (sequence_parallel)" : "", p.pipeline_parallel,
                             p.context_parallel, *p.data_parallel.value, p.order));
  out += wrapped("  batch     ", fmt::format("{}; {} per step in sequences of {}", batch_equation(r),
                                             counted(*r.runtime.global_batch_size * r.data.sequence_tokens, "token"),
                                             r.data.sequence_tokens));
  out += wrapped("  model     ", fmt::format("{}, {}, d_model {}: {} parameters", r.model.family,
                                             counted(r.model.layers, "layer"), r.model.d_model, plan.parameters));
  out += wrapped("  optimizer ", fmt::format("{}; {}", r.optimizer.kind, decay_text(plan)));
  out += wrapped("  data      ", fmt::format("document_mask {}, reset_positions {}", on_off(r.data.document_mask),
                                             on_off(r.data.reset_positions)));
  out += wrapped("  pipeline  ",
                 fmt::format("{}; bubble {:.1f} % of the time if stages are equal and a backward takes {} forwards; "
                             "recompute {}",
                             p.pipeline_schedule, 100 * plan.bubble_fraction, plan.backward_cost, r.runtime.recompute));
  for (const KeyOrigin& o : plan.overrides)
    out += wrapped("  set       ", fmt::format("{} = {} ({})", o.path, o.value, o.origin));
  return out;
}

// Hosts with equally many ranks next to each other are one row.
std::string placement_text(const Plan& plan) {
  struct Run {
    std::vector<std::string> hosts{};
    std::vector<int> ranks{};
    size_t per_host = 0;
  };
  if (plan.ranks.front().host.empty()) return "";
  std::vector<Run> runs;
  for (size_t r = 0; r < plan.ranks.size();) {
    size_t end = r;
    while (end < plan.ranks.size() && plan.ranks[end].host == plan.ranks[r].host) ++end;
    if (runs.empty() || runs.back().per_host != end - r) runs.push_back({.per_host = end - r});
    runs.back().hosts.push_back(plan.ranks[r].host);
    for (; r < end; ++r) runs.back().ranks.push_back(static_cast<int>(r));
  }
  TextTable table({"hosts", "number", "ranks on each", "ranks"}, {0, 3});
  for (const Run& run : runs)
    table.row({cut_to(compress_hostlist(run.hosts), 40), fmt::format("{}", run.hosts.size()),
               fmt::format("{}", run.per_host), ranges_text(run.ranks, 30)});
  return heading("Placement") + table.text();
}

std::string groups_text(const Plan& plan) {
  constexpr size_t kShown = 3, kWidth = 60;
  std::vector<std::string> order;
  std::map<std::string, std::vector<const PlanGroup*>> by_axis;
  for (const PlanGroup& g : plan.groups) {
    if (!by_axis.contains(g.axis)) order.push_back(g.axis);
    by_axis[g.axis].push_back(&g);
  }
  if (order.empty()) return "";
  TextTable table({"axis", "groups", "ranks in each", "the first"}, {0, 3});
  for (const std::string& axis : order) {
    const auto& groups = by_axis[axis];
    std::string first;
    for (size_t i = 0; i < std::min(kShown, groups.size()); ++i)
      first += fmt::format("{}[{}]", i == 0 ? "" : " ", ranges_text(groups[i]->ranks, kWidth / kShown - 3));
    if (groups.size() > kShown) first += " ...";
    table.row({axis, fmt::format("{}", groups.size()), fmt::format("{}", groups.front()->ranks.size()), first});
  }
  return heading("Process groups") + table.text();
}

std::string stages_text(const Plan& plan) {
  TextTable table({"stage", "layers", "parameters", "micro-batches in flight"}, {0, 1});
  for (const PlanStage& s : plan.stages)
    table.row({fmt::format("{}", s.stage),
               s.layers == 1 ? fmt::format("1 ({})", s.first_layer)
                             : fmt::format("{} ({}-{})", s.layers, s.first_layer, s.first_layer + s.layers - 1),
               fmt::format("{}", s.parameters), fmt::format("{}", s.in_flight)});
  return heading("Stages") + table.text();
}

std::string memory_text(const Plan& plan) {
  int64_t largest = 0;
  for (const MemoryClass& c : plan.counters.memory) largest = std::max({largest, c.peak_bytes, c.limit_bytes});
  const bool gib = largest >= int64_t{16} << 30, mib = largest >= int64_t{1} << 20;
  const double unit = gib ? 1024.0 * 1024 * 1024 : mib ? 1024.0 * 1024 : 1024.0;
  const auto in_unit = [&](int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / unit); };
  TextTable table({"ranks", "weights", "grads", "optim", "activ", "comm", "other", "peak", "limit", "fits"});
  for (const MemoryClass& c : plan.counters.memory) {
    std::vector<std::string> cells{ranges_text(c.ranks, 16)};
    for (const int64_t bytes : c.at_peak) cells.push_back(in_unit(bytes));
    cells.push_back(in_unit(c.peak_bytes));
    cells.push_back(c.limit_bytes > 0 ? in_unit(c.limit_bytes) : "-");
    cells.emplace_back(c.limit_bytes == 0 ? "-" : c.fits() ? "yes" : "no");
    table.row(std::move(cells));
  }
  std::string out = heading(fmt::format("Memory of a rank at its peak, {}", gib ? "GiB" : mib ? "MiB" : "KiB"));
  out += table.text();
  if (plan.host_staging_bytes > 0)
    out += wrapped("  ", fmt::format("besides, in host memory: at most {} per rank to stage a checkpoint",
                                     human_bytes(plan.host_staging_bytes)));
  return out;
}

std::string traffic_text(const Plan& plan) {
  if (plan.counters.traffic.empty()) return "";
  TextTable table({"axis", "operation", "messages", "bytes", ""}, {0, 1});
  for (const TrafficRow& t : plan.counters.traffic)
    table.row({t.axis, t.operation, fmt::format("{}", t.messages), fmt::format("{}", t.bytes), human_bytes(t.bytes)});
  return heading("Traffic of one training step, sent, summed over all ranks") + table.text();
}

std::string flops_text(const Plan& plan) {
  const auto row = [](int64_t flops) {
    return fmt::format("{} ({}FLOP)", flops, human_count(static_cast<double>(flops)));
  };
  return heading("FLOPs of one training step, all ranks") + wrapped("  model     ", row(plan.counters.model_flops)) +
         wrapped("  hardware  ", row(plan.counters.hardware_flops)) + wrapped("  formula   ", kFlopsFormula);
}

std::string verdict_text(const Plan& plan) {
  std::string out = "\n";
  for (const std::string& warning : plan.warnings) out += wrapped("warning: ", warning);
  const auto& fits = plan.verdict.fits;
  std::string lead = "verdict: ", answer = !fits ? "legal; " : *fits ? "fits; " : "DOES NOT FIT; ";
  for (const std::string& reason : plan.verdict.reasons) {
    out += wrapped(lead, answer + reason);
    lead.assign(lead.size(), ' ');
    answer.clear();
  }
  return out;
}

}  // namespace

std::string to_text(const Plan& plan) {
  return summary_text(plan) + placement_text(plan) + groups_text(plan) + stages_text(plan) + memory_text(plan) +
         traffic_text(plan) + flops_text(plan) + verdict_text(plan);
}

}  // namespace trainctl
