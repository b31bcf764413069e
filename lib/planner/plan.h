// lib/planner/plan.h -- what a recipe will do on a number of ranks, before any of them exists: placement, memory,
// messages and FLOPs, from the real engine run without storage.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "recipe/provenance.h"
#include "recipe/recipe.h"
#include "topology/mesh.h"
#include "topology/topology_config.h"
#include "trainer/counters.h"

namespace trainctl {

struct PlanRequest {
  const TopologyConfig* topology = nullptr;  // free of faults; null: ranks are not placed, memory has no limit
  std::optional<int64_t> ranks{};            // empty: the smallest world of the recipe
  bool oversubscribe = false;                // more ranks than slots, as in trainctl launch
};

struct PlanRank {
  int rank = 0;
  std::string host{};  // "": not placed
  int device = -1;     // -1: not placed
  Coordinates coordinates{};
};

struct PlanGroup {
  std::string axis{};  // of the mesh, or "world", "embedding" (the ends that share a tied embedding)
  std::vector<int> ranks{};
};

struct PlanStage {
  int64_t stage = 0, first_layer = 0, layers = 0;
  int64_t parameters = 0;  // logical; a tied embedding counts on both ends
  int64_t in_flight = 0;   // micro-batches held at most between their forward and their backward
};

struct PlanVerdict {
  std::optional<bool> fits{};          // empty: nothing speaks against it, but no memory limit is known
  std::vector<std::string> reasons{};  // one sentence each
};

struct Plan {
  Recipe recipe{};  // resolved
  int64_t world_size = 0;
  std::string topology{};  // name; "": none given
  std::vector<PlanRank> ranks{};
  std::vector<PlanGroup> groups{};  // those of more than one rank
  std::vector<PlanStage> stages{};
  RunCounters counters{};          // memory per class of ranks; traffic and FLOPs per training step, summed over ranks
  int64_t parameters = 0;          // a tied embedding counts once
  int64_t host_staging_bytes = 0;  // the most a rank stages of a checkpoint in its host's memory; cpu: 0, in `counters`
  std::vector<DecayGroup> decay{};
  double bubble_fraction = 0;          // of equal stages
  double backward_cost = 2;            // in forwards; 3 with recomputation
  std::vector<KeyOrigin> overrides{};  // what --set changed, and what stood there
  std::vector<std::string> warnings{};
  PlanVerdict verdict{};
  int64_t engine_runs = 0;  // classes of ranks that the engine was run for
  bool refused() const { return verdict.fits.has_value() && !*verdict.fits; }
};

// Throws Error{config} with the recipe's faults for this number of ranks. What the topology refuses (too few slots,
// another device kind, too little memory) is in the verdict, with the reason.
Plan make_plan(const LoadedRecipe& recipe, const PlanRequest& request);

nlohmann::ordered_json to_json(const Plan& plan);
std::string to_text(const Plan& plan);  // tables, at most 100 columns wide

// micro-batch arithmetic with its numbers: "global_batch_size 16 = micro_batch_size 2 x micro_batches 8 x ..."
std::string batch_equation(const Recipe& resolved);

}  // namespace trainctl
