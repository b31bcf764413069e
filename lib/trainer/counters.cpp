// lib/trainer/counters.cpp -- grouping, and JSON in and out.
#include "trainer/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace trainctl {
namespace {

std::string category_key(int category) { return std::string(name(static_cast<MemoryCategory>(category))) + "_bytes"; }

nlohmann::ordered_json traffic_json(const std::vector<TrafficRow>& rows) {
  auto list = nlohmann::ordered_json::array();
  for (const TrafficRow& r : rows)
    list.push_back({{"axis", r.axis}, {"operation", r.operation}, {"messages", r.messages}, {"bytes", r.bytes}});
  return list;
}

std::vector<TrafficRow> traffic_from(const nlohmann::json& list) {
  std::vector<TrafficRow> rows;
  for (const auto& r : list) rows.push_back({r.at("axis"), r.at("operation"), r.at("messages"), r.at("bytes")});
  return rows;
}

}  // namespace

RunCounters combine(const std::vector<RankCounters>& ranks, int64_t model_flops, int64_t limit_bytes_per_rank) {
  RunCounters run;
  run.model_flops = model_flops;
  std::map<std::pair<int64_t, std::array<int64_t, kMemoryCategories>>, std::vector<int>> classes;
  std::map<std::pair<std::string, std::string>, TrafficRow> traffic;
  for (const RankCounters& r : ranks) {
    if (__builtin_add_overflow(run.hardware_flops, r.hardware_flops, &run.hardware_flops))
      fail(ErrorKind::plan,
           "a step is more FLOPs than a 64-bit counter holds; use a smaller runtime.global_batch_size");
    classes[{r.peak_bytes, r.at_peak}].push_back(r.rank);
    for (const TrafficRow& row : r.traffic) {
      TrafficRow& sum =
          traffic.try_emplace({row.axis, row.operation}, TrafficRow{row.axis, row.operation}).first->second;
      sum.messages += row.messages;
      sum.bytes += row.bytes;
    }
  }
  for (auto& [key, members] : classes) {
    std::sort(members.begin(), members.end());
    run.memory.push_back({members, key.second, key.first, limit_bytes_per_rank});
  }
  std::sort(run.memory.begin(), run.memory.end(),
            [](const MemoryClass& a, const MemoryClass& b) { return a.ranks.front() < b.ranks.front(); });
  for (auto& [key, row] : traffic)
    if (row.messages > 0) run.traffic.push_back(row);
  return run;
}

nlohmann::ordered_json to_json(const RunCounters& counters) {
  nlohmann::ordered_json json;
  auto memory = nlohmann::ordered_json::array();
  for (const MemoryClass& c : counters.memory) {
    nlohmann::ordered_json row{{"ranks", c.ranks}};
    for (int k = 0; k < kMemoryCategories; ++k) row[category_key(k)] = c.at_peak[static_cast<size_t>(k)];
    row["peak_bytes"] = c.peak_bytes;
    row["limit_bytes"] = c.limit_bytes > 0 ? nlohmann::ordered_json(c.limit_bytes) : nlohmann::ordered_json(nullptr);
    row["fits"] = c.fits();
    memory.push_back(std::move(row));
  }
  json["memory"] = std::move(memory);
  json["traffic"] = traffic_json(counters.traffic);
  json["flops"] = {{"model_per_step", counters.model_flops},
                   {"hardware_per_step", counters.hardware_flops},
                   {"formula", kFlopsFormula}};
  return json;
}

RunCounters run_counters_from_json(const nlohmann::json& json) {
  try {
    RunCounters run;
    for (const auto& row : json.at("memory")) {
      MemoryClass c;
      c.ranks = row.at("ranks").get<std::vector<int>>();
      for (int k = 0; k < kMemoryCategories; ++k) c.at_peak[static_cast<size_t>(k)] = row.at(category_key(k));
      c.peak_bytes = row.at("peak_bytes");
      if (!row.at("limit_bytes").is_null()) c.limit_bytes = row.at("limit_bytes");
      run.memory.push_back(std::move(c));
    }
    run.traffic = traffic_from(json.at("traffic"));
    run.model_flops = json.at("flops").at("model_per_step");
    run.hardware_flops = json.at("flops").at("hardware_per_step");
    return run;
  } catch (const nlohmann::json::exception& error) {
    const std::string_view why = error.what();  // "[json.exception.<kind>] <why>"
    fail(ErrorKind::input, fmt::format("these are not counters of a plan or a run: {}",
                                       why.substr(std::min(why.find(' '), why.size() - 1) + 1)));
  }
}

std::string pack(const RankCounters& c) {
  return nlohmann::json{{"rank", c.rank},
                        {"at_peak", c.at_peak},
                        {"peak", c.peak_bytes},
                        {"flops", c.hardware_flops},
                        {"traffic", traffic_json(c.traffic)}}
      .dump();
}

RankCounters unpack_counters(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  RankCounters c;
  c.rank = json.at("rank");
  c.at_peak = json.at("at_peak");
  c.peak_bytes = json.at("peak");
  c.hardware_flops = json.at("flops");
  c.traffic = traffic_from(json.at("traffic"));
  return c;
}

}  // namespace trainctl
