// lib/comm/counting.h -- the backend of the dry run, as a class: besides costs it keeps which requests were made, so
// that the cost of another place in the same groups follows without running again.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "comm/collectives.h"

namespace trainctl {

// What decides the cost of a request, apart from the place in the group.
struct RequestShape {
  int group_id = 0;
  Operation operation = Operation::barrier;
  DType dtype = DType::u8;
  int64_t rows = 0, row_elements = 0;
  std::vector<int64_t> send_counts, recv_counts;
  int peer = -1;
  auto operator<=>(const RequestShape&) const = default;
  Request request() const;
};

class CountingCollectives final : public Collectives {
 public:
  CountingCollectives(int rank, int size, int64_t message_chunk_bytes);
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int64_t scratch_bytes(const GroupInfo& group, const Request& request) const override;
  Event start(const GroupInfo& group, const Request& request, Event ready) override;
  Cost sent(const GroupInfo& group, Operation operation) const override;
  void finalize() override {}

  using Histogram = std::map<RequestShape, int64_t>;  // how often each was made
  const Histogram& requests() const { return requests_; }

 private:
  int rank_, size_;
  int64_t message_chunk_bytes_;
  std::map<std::pair<int, Operation>, Cost> sent_;
  Histogram requests_;
};

}  // namespace trainctl
