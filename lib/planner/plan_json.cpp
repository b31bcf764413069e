// lib/planner/plan_json.cpp -- a plan for programs; units are in the names.
#include <nlohmann/json.hpp>

#include "planner/plan.h"

namespace trainctl {
namespace {

using Json = nlohmann::ordered_json;

Json layout_json(const Plan& plan) {
  const ParallelismConfig& p = plan.recipe.parallelism;
  return {{"world_size", plan.world_size},
          {"tensor_parallel", p.tensor_parallel},
          {"sequence_parallel", p.sequence_parallel},
          {"pipeline_parallel", p.pipeline_parallel},
          {"context_parallel", p.context_parallel},
          {"expert_parallel", p.expert_parallel},
          {"data_parallel", *p.data_parallel.value},
          {"zero_stage", p.zero_stage},
          {"order", p.order}};
}

Json ranks_json(const Plan& plan) {
  Json list = Json::array();
  for (const PlanRank& r : plan.ranks) {
    Json coordinates;
    for (const Axis axis : kAxes) coordinates[std::string(name(axis))] = r.coordinates.along(axis);
    list.push_back({{"rank", r.rank},
                    {"host", r.host.empty() ? Json(nullptr) : Json(r.host)},
                    {"device", r.device < 0 ? Json(nullptr) : Json(r.device)},
                    {"coordinates", std::move(coordinates)}});
  }
  return list;
}

Json batch_json(const Recipe& r) {
  return {{"micro_batch_size", *r.runtime.micro_batch_size},
          {"micro_batches", *r.runtime.micro_batches},
          {"global_batch_size", *r.runtime.global_batch_size},
          {"sequence_tokens", r.data.sequence_tokens},
          {"tokens_per_step", *r.runtime.global_batch_size * r.data.sequence_tokens},
          {"equation", batch_equation(r)}};
}

}  // namespace

Json to_json(const Plan& plan) {
  const Recipe& r = plan.recipe;
  Json json;
  json["schema"] = "trainctl-plan-1";
  json["recipe"] = r.name;
  json["topology"] = plan.topology.empty() ? Json(nullptr) : Json(plan.topology);
  json["device"] = r.runtime.device;
  json["precision"] = r.runtime.precision;
  json["layout"] = layout_json(plan);
  json["ranks"] = ranks_json(plan);
  json["groups"] = Json::array();
  for (const PlanGroup& g : plan.groups) json["groups"].push_back({{"axis", g.axis}, {"ranks", g.ranks}});
  json["stages"] = Json::array();
  for (const PlanStage& s : plan.stages)
    json["stages"].push_back({{"stage", s.stage},
                              {"layers", s.layers},
                              {"parameters", s.parameters},
                              {"first_layer", s.first_layer},
                              {"peak_in_flight", s.in_flight}});
  json.update(to_json(plan.counters));
  json["traffic_scope"] = "per training step, sent, summed over ranks";
  json["parameters"] = plan.parameters;
  json["host_staging_bytes"] = plan.host_staging_bytes;
  json["decay_groups"] = Json::array();
  for (const DecayGroup& d : plan.decay)
    json["decay_groups"].push_back(
        {{"weight_decay", d.weight_decay}, {"tensors", d.tensors}, {"parameters", d.elements}});
  json["batch"] = batch_json(r);
  json["data"] = {{"document_mask", r.data.document_mask}, {"reset_positions", r.data.reset_positions}};
  json["pipeline"] = {{"schedule", r.parallelism.pipeline_schedule},
                      {"bubble_fraction", plan.bubble_fraction},
                      {"backward_cost", plan.backward_cost}};
  json["overrides"] = Json::array();
  for (const KeyOrigin& o : plan.overrides)
    json["overrides"].push_back({{"key", o.path}, {"value", o.value}, {"origin", o.origin}});
  json["warnings"] = plan.warnings;
  json["verdict"] = {{"fits", plan.verdict.fits ? Json(*plan.verdict.fits) : Json(nullptr)},
                     {"reasons", plan.verdict.reasons}};
  return json;
}

}  // namespace trainctl
