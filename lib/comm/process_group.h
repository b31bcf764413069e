// lib/comm/process_group.h -- one slice of a mesh axis, and the operations its ranks may issue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/recorder.h"
#include "tensor/tensor.h"

namespace trainctl {

// A started operation. It holds the tensors involved until it has been waited for, on the thread that started it, so
// that memory is freed at the same point of the program in every run. Destroying an unfinished one waits for it.
class Pending {
 public:
  Pending() = default;
  Pending(Event event, std::vector<Tensor> held) : event_(std::move(event)), held_(std::move(held)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending();
  void wait();                   // blocks this thread; throws Error{comm} or Error{hang}
  void wait_on(Stream& stream);  // later work of `stream` starts after the operation; then frees what was held
  bool done() const { return !event_ || event_->done(); }

 private:
  Event event_;
  std::vector<Tensor> held_;
};

// Every rank of the group must issue the same operations in the same order. size() == 1: nothing is sent, the result is
// what the formula gives (all_gather: a copy). Buffers are contiguous. All operations are asynchronous: buffers belong
// to the operation until the Pending was waited for. `stream`: the operation starts after the work enqueued there.
class ProcessGroup {
 public:
  ProcessGroup(GroupInfo info, Collectives& backend, Arena& arena, Recorder& recorder);
  int size() const { return static_cast<int>(info_.ranks.size()); }
  int rank() const { return info_.index; }
  const GroupInfo& info() const { return info_; }

  // buffer = reduction over ranks, summed in rank order (f32 accumulation for bf16): equal bits on every rank.
  [[nodiscard]] Pending all_reduce(const Tensor& buffer, Reduce op, Stream& stream);
  // in [n_r, ...] -> out [N, ...], n_r = even_split(N, size(), r).size(); `in` may be the slice of `out` it lands in.
  [[nodiscard]] Pending all_gather(const Tensor& in, const Tensor& out, Stream& stream);
  // in [N, ...] -> out [n_r, ...], summed in rank order; `out` may be the slice of `in` that belongs to this rank.
  [[nodiscard]] Pending reduce_scatter(const Tensor& in, const Tensor& out, Reduce op, Stream& stream);
  // Elements [sum of send_counts before p, + send_counts[p]) of `in` go to peer p; likewise for `out`.
  [[nodiscard]] Pending all_to_all(const Tensor& in, const Tensor& out, std::span<const int64_t> send_counts,
                                   std::span<const int64_t> recv_counts, Stream& stream);
  [[nodiscard]] Pending broadcast(const Tensor& buffer, int root, Stream& stream);
  [[nodiscard]] Pending send(const Tensor& buffer, int peer, Stream& stream);
  [[nodiscard]] Pending recv(const Tensor& buffer, int peer, Stream& stream);
  void barrier(Stream& stream);  // returns when every rank has entered

 private:
  Pending start(Request request, std::vector<Tensor> held, Stream& stream);
  GroupInfo info_;
  Collectives& backend_;
  Arena& arena_;
  Recorder& recorder_;
};

}  // namespace trainctl
