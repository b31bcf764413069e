// lib/comm/process_group.cpp -- checks shapes, takes scratch from the arena, records, and hands over to the backend.
#include "comm/process_group.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/units.h"
#include "comm/exchange_plan.h"

namespace trainctl {
namespace {

int64_t row_elements_of(const Tensor& t) {
  int64_t n = 1;
  for (int i = 1; i < t.rank(); ++i) n *= t.dim(i);
  return n;
}
int64_t rows_of(const Tensor& t) { return t.rank() == 0 ? 1 : t.dim(0); }

void check(bool condition, const GroupInfo& group, Operation operation, const std::string& what) {
  if (!condition) fail(ErrorKind::internal, fmt::format("{} in the {} group: {}", name(operation), group.axis, what));
}

void check_buffer(const GroupInfo& group, Operation operation, const Tensor& t) {
  check(static_cast<bool>(t), group, operation, "the buffer is empty");
  check(t.contiguous(), group, operation,
        fmt::format("a buffer of shape {} is not contiguous; copy it first", to_string(t.shape())));
}

// `part` is rank index's share of the rows of `whole`.
void check_part(const GroupInfo& group, Operation operation, const Tensor& part, const Tensor& whole) {
  check_buffer(group, operation, part);
  check_buffer(group, operation, whole);
  check(part.dtype() == whole.dtype(), group, operation, "the two buffers differ in dtype");
  const Span64 share = even_split(rows_of(whole), static_cast<int64_t>(group.ranks.size()), group.index);
  check(whole.rank() >= 1 && rows_of(part) == share.size() && row_elements_of(part) == row_elements_of(whole), group,
        operation,
        fmt::format("shape {} is not part {} of {}, which has {} rows of {} elements", to_string(part.shape()),
                    group.index, to_string(whole.shape()), share.size(), row_elements_of(whole)));
}

}  // namespace

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this == &other) return *this;
  Pending old(std::move(*this));  // waits when it goes
  event_ = std::move(other.event_);
  held_ = std::move(other.held_);
  other.event_.reset();
  other.held_.clear();
  return *this;
}

Pending::~Pending() {
  if (!event_) return;
  try {
    event_->wait_host();
  } catch (const Error&) {
    // Whoever needed the result would have waited and got the error; the next operation of the group fails with it too.
  }
}

void Pending::wait() {
  const Event event = std::exchange(event_, nullptr);
  const std::vector<Tensor> held = std::exchange(held_, {});
  if (event) event->wait_host();
}

void Pending::wait_on(Stream& stream) {
  const Event event = std::exchange(event_, nullptr);
  const std::vector<Tensor> held = std::exchange(held_, {});
  if (event) stream.wait(event);
}

ProcessGroup::ProcessGroup(GroupInfo info, Collectives& backend, Arena& arena, Recorder& recorder)
    : info_(std::move(info)), backend_(backend), arena_(arena), recorder_(recorder) {}

Pending ProcessGroup::start(Request request, std::vector<Tensor> held, Stream& stream) {
  check_request(info_, request);
  if (size() == 1) {  // no thread is asked: at most a copy, in stream order
    const int64_t ticket = recorder_.begin(info_, request);
    if (request.in && request.out && request.in != request.out)
      arena_.device().copy(request.out, request.in, bytes_of(request), stream);
    recorder_.end(ticket);
    return {};
  }
  const int64_t scratch_bytes = backend_.scratch_bytes(info_, request);
  if (scratch_bytes > 0) {
    held.emplace_back(arena_, Shape{scratch_bytes}, DType::u8, MemoryCategory::communication);
    request.scratch = held.back().data();
  }
  const int64_t ticket = recorder_.begin(info_, request);
  request.completed = [&recorder = recorder_, ticket] { recorder.end(ticket); };
  return Pending(backend_.start(info_, request, stream.record()), std::move(held));
}

Pending ProcessGroup::all_reduce(const Tensor& buffer, Reduce op, Stream& stream) {
  check_buffer(info_, Operation::all_reduce, buffer);
  Request request;
  request.operation = Operation::all_reduce;
  request.reduce = op;
  request.dtype = buffer.dtype();
  request.out = buffer.data();
  request.rows = buffer.numel();
  request.row_elements = 1;
  return start(std::move(request), {buffer}, stream);
}

Pending ProcessGroup::all_gather(const Tensor& in, const Tensor& out, Stream& stream) {
  check_part(info_, Operation::all_gather, in, out);
  Request request;
  request.operation = Operation::all_gather;
  request.dtype = in.dtype();
  request.in = in.data();
  request.out = out.data();
  request.rows = rows_of(out);
  request.row_elements = row_elements_of(out);
  return start(std::move(request), {in, out}, stream);
}

Pending ProcessGroup::reduce_scatter(const Tensor& in, const Tensor& out, Reduce op, Stream& stream) {
  check_part(info_, Operation::reduce_scatter, out, in);
  Request request;
  request.operation = Operation::reduce_scatter;
  request.reduce = op;
  request.dtype = in.dtype();
  request.in = in.data();
  request.out = out.data();
  request.rows = rows_of(in);
  request.row_elements = row_elements_of(in);
  return start(std::move(request), {in, out}, stream);
}

Pending ProcessGroup::all_to_all(const Tensor& in, const Tensor& out, std::span<const int64_t> send_counts,
                                 std::span<const int64_t> recv_counts, Stream& stream) {
  check_buffer(info_, Operation::all_to_all, in);
  check_buffer(info_, Operation::all_to_all, out);
  const int64_t sent = std::accumulate(send_counts.begin(), send_counts.end(), int64_t{0});
  const int64_t received = std::accumulate(recv_counts.begin(), recv_counts.end(), int64_t{0});
  check(in.dtype() == out.dtype(), info_, Operation::all_to_all, "the two buffers differ in dtype");
  check(sent <= in.numel() && received <= out.numel(), info_, Operation::all_to_all,
        fmt::format("counts of {} sent and {} received elements do not fit buffers of {} and {}", sent, received,
                    in.numel(), out.numel()));
  Request request;
  request.operation = Operation::all_to_all;
  request.dtype = in.dtype();
  request.in = in.data();
  request.out = out.data();
  request.send_counts.assign(send_counts.begin(), send_counts.end());
  request.recv_counts.assign(recv_counts.begin(), recv_counts.end());
  return start(std::move(request), {in, out}, stream);
}

Pending ProcessGroup::broadcast(const Tensor& buffer, int root, Stream& stream) {
  check_buffer(info_, Operation::broadcast, buffer);
  Request request;
  request.operation = Operation::broadcast;
  request.dtype = buffer.dtype();
  request.out = buffer.data();
  request.rows = buffer.numel();
  request.row_elements = 1;
  request.peer = root;
  return start(std::move(request), {buffer}, stream);
}

Pending ProcessGroup::send(const Tensor& buffer, int peer, Stream& stream) {
  check_buffer(info_, Operation::send, buffer);
  Request request;
  request.operation = Operation::send;
  request.dtype = buffer.dtype();
  request.in = buffer.data();
  request.rows = buffer.numel();
  request.row_elements = 1;
  request.peer = peer;
  return start(std::move(request), {buffer}, stream);
}

Pending ProcessGroup::recv(const Tensor& buffer, int peer, Stream& stream) {
  check_buffer(info_, Operation::recv, buffer);
  Request request;
  request.operation = Operation::recv;
  request.dtype = buffer.dtype();
  request.out = buffer.data();
  request.rows = buffer.numel();
  request.row_elements = 1;
  request.peer = peer;
  return start(std::move(request), {buffer}, stream);
}

void ProcessGroup::barrier(Stream& stream) {
  Request request;
  request.operation = Operation::barrier;
  start(std::move(request), {}, stream).wait();
}

}  // namespace trainctl
