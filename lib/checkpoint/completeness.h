// lib/checkpoint/completeness.h -- the table of the twelve state classes: what a checkpoint holds of a training state.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"

namespace trainctl {

inline constexpr std::array<std::string_view, 12> kStateClasses = {
    "weights", "optimizer",       "scheduler", "loss_scaler", "rng",      "sampler",
    "packing", "consumed_tokens", "topology",  "sharding",    "versions", "low_precision_scaling"};

// The parts of "versions" and the file of each.
struct VersionPart {
  std::string_view name, file;
};
inline constexpr std::array<VersionPart, 5> kVersionParts = {{{"data", "meta/data-version.json"},
                                                              {"code", "meta/code-version.json"},
                                                              {"tokenizer", "meta/tokenizer/tokenizer.json"},
                                                              {"config", "meta/config.json"},
                                                              {"features", "meta/features.json"}}};

// The table for a manifest whose tensors, meta, scalars and topology are filled in. A class is `present` when it is
// seen there: tensors by role, scalars, topology, boxes, the five files of meta/. Otherwise it is `derived` when
// `declared` says from what it follows (the caller's word: state "derived"), else `absent`. An unknown declared name is
// Error{internal}.
std::vector<StateClass> completeness_of(const Manifest& manifest, const std::vector<StateClass>& declared);

// "" or the first class that is absent, with a part after a dot ("versions.tokenizer"), and why.
std::string absent_class(const std::vector<StateClass>& table);

}  // namespace trainctl
