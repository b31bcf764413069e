// lib/tensor/catalog.h -- the state catalog: every piece of state a rank holds, under a name that no layout changes.
// It is what a checkpoint sees: it knows neither models nor optimizers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace trainctl {

// A box in a logical (global, unpadded) tensor.
struct Box {
  Shape offset, extent;
  bool operator==(const Box&) const = default;
};

struct StateEntry {
  std::string name;      // "layers.3.attention.q.weight": global layer index
  std::string role;      // weight | master | exp_avg | exp_avg_sq | momentum
  Shape shape;           // logical
  Box box;               // what this rank holds of it
  Tensor local;          // contiguous; shape == box.extent
  bool owner = true;     // exactly one rank of those that hold the same box writes it
  std::string alias_of;  // tied copy of this other name; then never written
};
using StateCatalog = std::vector<StateEntry>;

// State that is no tensor, captured by value at a step boundary.
struct ScalarState {
  int64_t step = 0;              // optimizer steps done
  int64_t consumed_samples = 0;  // the data cursor: next global sample number; used or passed over
  int64_t consumed_tokens = 0;   // of the samples used
  double last_loss = 0, last_grad_norm = 0;
  int64_t non_finite_count = 0;
  int64_t seed = 0;
  std::string data_fingerprint;
  std::string data_state;  // a JSON object of the caller's: where its data stand; "": none
};

// Empty when `entries` of all ranks together cover each logical tensor exactly once by owners; else what is wrong.
std::vector<std::string> coverage_faults(const std::vector<StateEntry>& entries);

}  // namespace trainctl
