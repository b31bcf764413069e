// lib/parallel/apply_parallelism.h -- SEAM 2: one rank's part of a model, with its memory and its communication.
#pragma once

#include "parallel/parallelism_config.h"
#include "parallel/sharded_model.h"

namespace trainctl {

struct ApplyOptions {
  DType compute_dtype = DType::f32;  // f32, or bf16 with an f32 master
};

// Keeps this rank's stage, cuts every parameter by the rules of sharding.h, fills the regions, allocates the flat
// buffers and zeroes them. Values come from initialise_weights() or from a checkpoint. `parallelism` is resolved; the
// world's mesh has the same degrees. Context and world outlive the result.
ShardedModel apply_parallelism(Model model, const ParallelismConfig& parallelism, World& world, Context& context,
                               const ApplyOptions& options);

// Initial values: element i of a parameter is a function of (seed, name, i), the same in every layout.
void initialise_weights(ShardedModel& model, uint64_t seed);
// Makes the compute weights follow the master, after the master was written by others (a checkpoint).
void refresh_compute_weights(ShardedModel& model);

// The weights of this rank (role "master": f32), by name, for checkpoints and comparisons; then the gradients likewise.
StateCatalog weight_catalog(const ShardedModel& model);
StateCatalog flat_catalog(const ShardedModel& model, const Tensor& flat, const std::string& role);

}  // namespace trainctl
