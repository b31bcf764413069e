// lib/checkpoint/completeness.cpp -- the table of the twelve state classes.
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "checkpoint/save_job.h"

namespace trainctl {
namespace {

bool any_of_roles(const std::vector<TensorRecord>& tensors, std::initializer_list<std::string_view> roles) {
  return std::any_of(tensors.begin(), tensors.end(), [roles](const TensorRecord& t) {
    return std::find(roles.begin(), roles.end(), t.role) != roles.end();
  });
}

}  // namespace

std::vector<StateClass> completeness_of(const std::vector<TensorRecord>& tensors, const std::string& topology,
                                        const std::string& provenance) {
  const auto present_if = [](bool there, std::string where) {
    return there ? std::pair(std::string("present"), std::move(where))
                 : std::pair(std::string("absent"), std::string());
  };
  std::vector<StateClass> table;
  const auto add = [&table](std::string name, std::pair<std::string, std::string> what) {
    table.push_back({std::move(name), std::move(what.first), std::move(what.second)});
  };
  const auto derived = [](std::string from) { return std::pair(std::string("derived"), std::move(from)); };
  add("weights", present_if(any_of_roles(tensors, {"weight", "master"}),
                            any_of_roles(tensors, {"weight"}) ? "tensors with role weight"
                                                              : "tensors with role master; weights are their cast"));
  add("optimizer", {"present", any_of_roles(tensors, {"exp_avg", "exp_avg_sq", "momentum"})
                                   ? "tensors with roles exp_avg, exp_avg_sq, momentum, and scalars.step"
                                   : "scalars.step; the update rule keeps no tensors"});
  add("scheduler", derived("a function of scalars.step and the recipe"));
  add("loss_scaler", derived("not used in f32 and bf16"));
  add("rng", derived("counter based: rng.seed, scalars.step, global token position"));
  add("sampler", derived("a function of the seed and data.consumed_samples"));
  add("packing", derived("a function of the seed and data.consumed_samples"));
  add("consumed_tokens", {"present", "data.consumed_tokens"});
  add("topology", present_if(!topology.empty(), "topology"));
  add("sharding", {"present", "the boxes of tensors[].chunks"});
  add("versions", present_if(!provenance.empty(), "provenance"));
  add("low_precision_scaling", derived("not used in f32 and bf16"));
  return table;
}

}  // namespace trainctl
