// lib/trainer/rank_agreement.cpp -- uncounted messages of the world as deliveries.
#include "trainer/rank_agreement.h"

#include <utility>

#include "base/error.h"

namespace trainctl {
namespace {

class PendingDelivery final : public Delivery {
 public:
  explicit PendingDelivery(Pending pending) : pending_(std::move(pending)) {}
  bool done() override { return pending_.done(); }
  void wait() override { pending_.wait(); }

 private:
  Pending pending_;
};

}  // namespace

NodeRanks node_ranks(World& world, const std::vector<std::string>& hosts) {
  ensure(std::ssize(hosts) == world.size(), "every rank has a host");
  NodeRanks node;
  for (size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == hosts[static_cast<size_t>(world.rank())]) node.ranks.push_back(static_cast<int64_t>(r));
  node.send = [&world](int64_t rank, const void* data, int64_t bytes) -> DeliveryPtr {
    return std::make_unique<PendingDelivery>(world.send_bytes(static_cast<int>(rank), data, bytes));
  };
  node.receive = [&world](int64_t rank, void* data, int64_t bytes) -> DeliveryPtr {
    return std::make_unique<PendingDelivery>(world.receive_bytes(static_cast<int>(rank), data, bytes));
  };
  return node;
}

Agreement rank_agreement(Engine& engine, const std::vector<std::string>& hosts) {
  Agreement a;
  a.rank = engine.world->rank();
  a.world = engine.world->size();
  a.broadcast_from_rank0 = [&engine](const std::string& text) { return engine.broadcast_text(text); };
  a.all_agree = [&engine](bool yes) { return !engine.any_rank_asks(!yes); };
  a.sum = [&engine](int64_t value) { return engine.sum_over_ranks(value); };
  a.node = node_ranks(*engine.world, hosts);
  return a;
}

}  // namespace trainctl
