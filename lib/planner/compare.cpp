// lib/planner/compare.cpp -- see the header.
#include "planner/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "planner/text_table.h"

namespace trainctl {
namespace {

using ClassPair = std::pair<size_t, size_t>;  // index of the class in the plan and in the run

std::map<int, size_t> class_by_rank(const RunCounters& counters) {
  std::map<int, size_t> classes;
  for (size_t i = 0; i < counters.memory.size(); ++i)
    for (const int rank : counters.memory[i].ranks) classes[rank] = i;
  return classes;
}

void compare_memory(const RunCounters& plan, const RunCounters& run, std::vector<ComparedQuantity>& rows) {
  const std::map<int, size_t> planned = class_by_rank(plan), counted = class_by_rank(run);
  std::vector<ClassPair> order;
  std::map<ClassPair, std::vector<int>> members;
  for (const auto& [rank, planned_class] : planned) {
    const auto found = counted.find(rank);
    if (found == counted.end() || planned.size() != counted.size())
      fail(ErrorKind::plan,
           fmt::format("the plan has {} and the run had {}; plan with --ranks {}",
                       trainctl::counted(std::ssize(planned), "rank"), counted.size(), counted.size()));
    const ClassPair pair{planned_class, found->second};
    if (!members.contains(pair)) order.push_back(pair);
    members[pair].push_back(rank);
  }
  for (const ClassPair& pair : order) {
    const MemoryClass& p = plan.memory[pair.first];
    const MemoryClass& r = run.memory[pair.second];
    const std::string lead = fmt::format("ranks {}: ", ranges_text(members[pair], 10));
    for (size_t c = 0; c < p.at_peak.size(); ++c)
      rows.push_back(
          {fmt::format("{}{}_bytes", lead, name(static_cast<MemoryCategory>(c))), p.at_peak[c], r.at_peak[c]});
    rows.push_back({lead + "peak_bytes", p.peak_bytes, r.peak_bytes});
  }
}

void compare_traffic(const RunCounters& plan, const RunCounters& run, std::vector<ComparedQuantity>& rows) {
  std::map<std::pair<std::string, std::string>, std::pair<TrafficRow, TrafficRow>> both;
  for (const TrafficRow& row : plan.traffic) both[{row.axis, row.operation}].first = row;
  for (const TrafficRow& row : run.traffic) both[{row.axis, row.operation}].second = row;
  for (const auto& [key, pair] : both) {
    const std::string lead = fmt::format("{} {}: ", key.first, key.second);
    rows.push_back({lead + "messages", pair.first.messages, pair.second.messages});
    rows.push_back({lead + "bytes", pair.first.bytes, pair.second.bytes});
  }
}

}  // namespace

std::vector<ComparedQuantity> compare(const RunCounters& plan, const RunCounters& run) {
  std::vector<ComparedQuantity> rows;
  compare_memory(plan, run, rows);
  compare_traffic(plan, run, rows);
  rows.push_back({"model_flops per step", plan.model_flops, run.model_flops});
  rows.push_back({"hardware_flops per step", plan.hardware_flops, run.hardware_flops});
  return rows;
}

bool all_equal(const std::vector<ComparedQuantity>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const ComparedQuantity& row) { return row.difference() == 0; });
}

nlohmann::ordered_json to_json(const std::vector<ComparedQuantity>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const ComparedQuantity& row : rows)
    list.push_back({{"quantity", row.what}, {"plan", row.plan}, {"run", row.run}, {"difference", row.difference()}});
  return list;
}

std::string to_text(const std::vector<ComparedQuantity>& rows) {
  TextTable table({"quantity", "plan", "run", "run - plan"});
  for (const ComparedQuantity& row : rows)
    table.row({cut_to(row.what, 40), fmt::format("{}", row.plan), fmt::format("{}", row.run),
               row.difference() == 0 ? "=" : fmt::format("{:+}", row.difference())});
  return table.text();
}

int64_t ranks_of(const RunCounters& counters) {
  int64_t ranks = 0;
  for (const MemoryClass& c : counters.memory) ranks += static_cast<int64_t>(c.ranks.size());
  return ranks;
}

}  // namespace trainctl
