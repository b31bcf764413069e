// lib/checkpoint/completeness.cpp -- what is seen in a manifest, and what the caller says it follows from.
#include "checkpoint/completeness.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "base/json_node.h"

namespace trainctl {
namespace {

// "tensors with roles a, b" for the roles that are there; "" for none.
std::string tensors_with(const Manifest& m, std::initializer_list<std::string_view> roles) {
  std::string found;
  for (const std::string_view role : roles)
    if (std::any_of(m.tensors.begin(), m.tensors.end(), [role](const TensorRecord& t) { return t.role == role; }))
      found += fmt::format("{}{}", found.empty() ? "tensors with role " : ", ", role);
  return found;
}

StateClass versions_of(const Manifest& m) {
  StateClass versions{"versions", "present", "the files of meta/"};
  for (const VersionPart& part : kVersionParts) {
    const bool there =
        std::any_of(m.meta.begin(), m.meta.end(), [&part](const MetaRecord& f) { return f.path == part.file; });
    versions.parts.push_back(
        {std::string(part.name), there ? "present" : "absent", there ? std::string(part.file) : std::string()});
    if (!there) versions.state = "absent", versions.where.clear();
  }
  return versions;
}

// Where the manifest itself holds the class; "" when it does not.
std::string seen(const Manifest& m, std::string_view name) {
  if (name == "weights") return tensors_with(m, {"weight", "master"});
  if (name == "optimizer") {
    const std::string tensors = tensors_with(m, {"exp_avg", "exp_avg_sq", "momentum"});
    return tensors.empty() ? "" : tensors + "; scalars.step";
  }
  if (name == "consumed_tokens")
    return m.scalars.consumed_tokens >= 0 && m.scalars.consumed_samples >= 0
               ? "data.consumed_tokens, data.consumed_samples"
               : "";
  if (name == "topology") return m.topology.empty() || m.topology == "{}" ? "" : "topology";
  if (name == "sharding")
    return std::any_of(m.tensors.begin(), m.tensors.end(), [](const TensorRecord& t) { return !t.chunks.empty(); })
               ? "the boxes of tensors[].chunks"
               : "";
  if (name == "low_precision_scaling") return tensors_with(m, {"fp8_scale", "amax_history"});
  return "";
}

}  // namespace

std::vector<StateClass> completeness_of(const Manifest& m, const std::vector<StateClass>& declared) {
  for (const StateClass& d : declared)
    ensure(std::find(kStateClasses.begin(), kStateClasses.end(), d.name) != kStateClasses.end() &&
               d.state == "derived" && !d.where.empty(),
           fmt::format("the declared state class {} is none of the twelve, or says not from what it follows",
                       in_quotes(d.name)));
  std::vector<StateClass> table;
  for (const std::string_view name : kStateClasses) {
    if (name == "versions") {
      table.push_back(versions_of(m));
      continue;
    }
    const std::string where = seen(m, name);
    const auto said =
        std::find_if(declared.begin(), declared.end(), [name](const StateClass& d) { return d.name == name; });
    if (!where.empty())
      table.push_back({std::string(name), "present", where});
    else if (said != declared.end())
      table.push_back(*said);
    else
      table.push_back({std::string(name), "absent", ""});
  }
  return table;
}

std::string absent_class(const std::vector<StateClass>& table) {
  for (const StateClass& c : table) {
    if (c.state != "absent") continue;
    for (const StateClass& part : c.parts)
      if (part.state == "absent") {
        const auto known = std::find_if(kVersionParts.begin(), kVersionParts.end(),
                                        [&part](const VersionPart& p) { return p.name == part.name; });
        return fmt::format("{} is absent (no {})", in_quotes(c.name + "." + part.name),
                           known == kVersionParts.end() ? "file of meta/" : known->file);
      }
    return fmt::format("{} is absent (neither stored nor declared to follow from something)", in_quotes(c.name));
  }
  return "";
}

}  // namespace trainctl
