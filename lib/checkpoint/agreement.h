// lib/checkpoint/agreement.h -- how the ranks of a run meet. Given by whoever has them: this module knows no transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trainctl {

// Bytes on their way between two ranks. Their memory belongs to the delivery until wait() returned; destroying one that
// was not waited for waits.
class Delivery {
 public:
  virtual ~Delivery() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;
};
using DeliveryPtr = std::unique_ptr<Delivery>;

// The ranks that run on this rank's node, which therefore share its way to the disk, and how they hand each other
// bytes. Between two ranks the k-th send meets the k-th receive, and both give the same size. A send may last until its
// receive is waited for. What these functions throw passes through.
struct NodeRanks {
  std::vector<int64_t> ranks{};  // of the world, ascending, equal on all of them; empty: this rank is alone
  std::function<DeliveryPtr(int64_t rank, const void* data, int64_t bytes)> send{};
  std::function<DeliveryPtr(int64_t rank, void* data, int64_t bytes)> receive{};
};

// How the ranks of a run agree. Called on the training thread only, by every rank in the same order; `node` by the
// ranks of one node. The defaults are right for a world of one.
struct Agreement {
  int64_t rank = 0, world = 1;
  std::function<std::string(const std::string&)> broadcast_from_rank0 = [](const std::string& text) { return text; };
  std::function<bool(bool)> all_agree = [](bool yes) { return yes; };  // true when every rank says true
  std::function<int64_t(int64_t)> sum = [](int64_t value) { return value; };
  NodeRanks node{};
};

}  // namespace trainctl
