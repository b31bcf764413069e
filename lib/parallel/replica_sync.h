// lib/parallel/replica_sync.h -- gradients of parameters that several ranks hold in part: summed once per step, after
// the data group has reduced.
#pragma once

#include <vector>

#include "autograd/context.h"
#include "autograd/parameter.h"
#include "comm/world.h"

namespace trainctl {

class ReplicaSync {
 public:
  ReplicaSync() = default;
  // `tied`: the embedding shard of this rank when the other end of the pipeline holds a copy of it, else null.
  ReplicaSync(const std::vector<ParameterPtr>& parameters, World& world, bool sequence_parallel, ParameterPtr tied);
  void run(Context& context) const;

 private:
  std::vector<ParameterPtr> partial_, overlapping_;
  ParameterPtr tied_;
  World* world_ = nullptr;
};

}  // namespace trainctl
