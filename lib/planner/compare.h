// lib/planner/compare.h -- a plan beside what a run counted, quantity by quantity.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trainer/counters.h"

namespace trainctl {

struct ComparedQuantity {
  std::string what;  // "ranks 0-3: weights_bytes", "tensor all_reduce: messages"
  int64_t plan = 0, run = 0;
  int64_t difference() const { return run - plan; }
};

// Every number of both: memory by ranks (classes of both are cut until each has one number on each side), traffic by
// axis and operation (0 where one side has none), FLOPs. Limits are not compared: they are no count.
// Throws Error{plan} when the two have different ranks.
std::vector<ComparedQuantity> compare(const RunCounters& plan, const RunCounters& run);

bool all_equal(const std::vector<ComparedQuantity>& rows);
nlohmann::ordered_json to_json(const std::vector<ComparedQuantity>& rows);
std::string to_text(const std::vector<ComparedQuantity>& rows);  // a table of at most 100 columns

int64_t ranks_of(const RunCounters& counters);

}  // namespace trainctl
