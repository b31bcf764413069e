// lib/trainer/checkpoint_identity.h -- what a checkpoint of this run says about itself: topology, provenance, the files
// of meta/, and which state classes follow from what is stored.
#pragma once

#include "checkpoint/checkpointer.h"
#include "data/sampler.h"
#include "recipe/job.h"

namespace trainctl {

// Fills topology, provenance, meta and derived of `options`. meta: config.json (the resolved recipe),
// tokenizer/tokenizer.json, features.json (what the run had switched on), data-version.json (the sampler's definition
// and every source's digest), code-version.json. A class that this precision or optimizer does not have is declared;
// one that nothing here knows how to derive stays undeclared, and a save without it is refused.
void describe_run(const Job& job, const Sampler& sampler, CheckpointerOptions& options);

}  // namespace trainctl
