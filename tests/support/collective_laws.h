// tests/support/collective_laws.h -- what every backend must do, checked against serial arithmetic; run by each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collectives.h"

namespace trainctl::testing {

struct CollectiveCase {
  Operation operation = Operation::barrier;
  Reduce reduce = Reduce::sum;
  DType dtype = DType::f32;
  int64_t rows = 0, row_elements = 1;
  bool exact = true;     // small integers; else values whose sum depends on the order
  bool in_place = true;  // all_gather, reduce_scatter: the part lies inside the whole
  uint64_t seed = 0;
};
std::string describe(const CollectiveCase& c);

// The element `index` of what `rank` contributes, as stored.
double pattern(const CollectiveCase& c, int rank, int64_t index);

// Buffers of one started operation and what they must hold in the end. Guard bytes surround every buffer.
class CollectiveTrial {
 public:
  CollectiveTrial(Collectives& backend, const GroupInfo& group, const CollectiveCase& c);
  void start();        // asynchronous
  void wait();         // throws what the backend throws
  void check() const;  // throws with the first wrong element
  const Request& request() const { return request_; }
  bool done() const { return !event_ || event_->done(); }

 private:
  void fill(std::vector<std::byte>& buffer, int64_t offset, int rank, int64_t from, int64_t count) const;

  Collectives& backend_;
  GroupInfo group_;
  CollectiveCase c_;
  std::vector<std::byte> in_, out_, scratch_;
  Request request_;
  Event event_;
};

// One operation from start to check, and that what was sent is what predicted_cost() says.
void check_collective(Collectives& backend, const GroupInfo& group, const CollectiveCase& c,
                      int64_t message_chunk_bytes);

// Every operation and reduction x every dtype x the awkward sizes, on one group.
void check_all_collectives(Collectives& backend, const GroupInfo& group, int64_t message_chunk_bytes);

// Many operations of several groups in flight at once, issued in another interleaving on every rank, with delays.
void check_concurrent_groups(Collectives& backend, const std::vector<GroupInfo>& groups, int operations, uint64_t seed);

// Both ranks of a pair send `elements` before either receives.
void check_crossing_sends(Collectives& backend, const GroupInfo& pair, int64_t elements);

GroupInfo group_of(int id, std::string axis, std::vector<int> ranks, int rank);

}  // namespace trainctl::testing
