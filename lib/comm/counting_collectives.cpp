// lib/comm/counting_collectives.cpp -- counts what would be sent and moves nothing.
#include "comm/counting.h"
#include "comm/exchange_plan.h"

namespace trainctl {

Request RequestShape::request() const {
  Request r;
  r.operation = operation;
  r.dtype = dtype;
  r.rows = rows;
  r.row_elements = row_elements;
  r.send_counts = send_counts;
  r.recv_counts = recv_counts;
  r.peer = peer;
  return r;
}

CountingCollectives::CountingCollectives(int rank, int size, int64_t message_chunk_bytes)
    : rank_(rank), size_(size), message_chunk_bytes_(message_chunk_bytes) {
  check_chunk_limit(message_chunk_bytes);
}

int64_t CountingCollectives::scratch_bytes(const GroupInfo& group, const Request& request) const {
  return exchange_scratch_bytes(group, request, message_chunk_bytes_);
}

Event CountingCollectives::start(const GroupInfo& group, const Request& request, Event) {
  check_request(group, request);
  sent_[{group.id, request.operation}] += predicted_cost(group, request, message_chunk_bytes_);
  ++requests_[{group.id, request.operation, request.dtype, request.rows, request.row_elements, request.send_counts,
               request.recv_counts, request.peer}];
  if (request.completed) request.completed();
  return nullptr;
}

Cost CountingCollectives::sent(const GroupInfo& group, Operation operation) const {
  const auto found = sent_.find({group.id, operation});
  return found == sent_.end() ? Cost{} : found->second;
}

std::unique_ptr<Collectives> make_counting_collectives(int rank, int size, int64_t message_chunk_bytes) {
  return std::make_unique<CountingCollectives>(rank, size, message_chunk_bytes);
}

}  // namespace trainctl
