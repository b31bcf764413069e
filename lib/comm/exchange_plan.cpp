// lib/comm/exchange_plan.cpp -- parts, pieces, scratch and the closed formula of what is sent.
#include "comm/exchange_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace trainctl {

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::broadcast:
      return "broadcast";
    case Operation::send:
      return "send";
    case Operation::recv:
      return "recv";
    case Operation::barrier:
      return "barrier";
  }
  return "?";
}

std::string_view name(Reduce reduce) { return reduce == Reduce::sum ? "sum" : "max"; }

int64_t elements_of(const Request& request) { return checked_mul(request.rows, request.row_elements); }

int64_t bytes_of(const Request& request) {
  int64_t elements = 0;
  if (request.operation == Operation::all_to_all)
    for (const int64_t count : request.send_counts) elements = checked_add(elements, count);
  else
    elements = elements_of(request);
  return checked_mul(elements, size_of(request.dtype));
}

Span64 part_of(const Request& request, int64_t group_size, int64_t index) {
  const bool by_element = request.operation == Operation::all_reduce;
  const int64_t unit = by_element ? size_of(request.dtype) : checked_mul(request.row_elements, size_of(request.dtype));
  const Span64 part = even_split(by_element ? elements_of(request) : request.rows, group_size, index);
  return {checked_mul(part.begin, unit), checked_mul(part.end, unit)};
}

int64_t piece_bytes(const Request& request, int64_t message_chunk_bytes) {
  return message_chunk_bytes - message_chunk_bytes % size_of(request.dtype);
}

bool all_reduce_in_one_round(const Request& request, int64_t group_size) {
  constexpr int64_t kSmallBytes = 16384;  // sent by one rank in all
  return checked_mul(bytes_of(request), group_size - 1) <= kSmallBytes;
}

int64_t exchange_scratch_bytes(const GroupInfo& group, const Request& request, int64_t message_chunk_bytes) {
  const auto n = static_cast<int64_t>(group.ranks.size());
  if (n <= 1) return 0;
  if (request.operation == Operation::all_reduce && all_reduce_in_one_round(request, n))
    return (n - 1) * bytes_of(request);
  if (request.operation != Operation::all_reduce && request.operation != Operation::reduce_scatter) return 0;
  return (n - 1) * std::min(part_of(request, n, 0).size(), piece_bytes(request, message_chunk_bytes));
}

Cost predicted_cost(const GroupInfo& group, const Request& request, int64_t message_chunk_bytes) {
  const auto n = static_cast<int64_t>(group.ranks.size());
  Cost cost;
  if (n <= 1) return cost;
  const int64_t piece = piece_bytes(request, message_chunk_bytes);
  const auto add = [&](int64_t bytes, int64_t times = 1) { cost += {times * ceil_div(bytes, piece), times * bytes}; };
  const auto add_parts_of_others = [&] {
    for (int64_t p = 0; p < n; ++p)
      if (p != group.index) add(part_of(request, n, p).size());
  };
  switch (request.operation) {
    case Operation::all_reduce:
      if (all_reduce_in_one_round(request, n)) {
        add(bytes_of(request), n - 1);
      } else {
        add_parts_of_others();
        add(part_of(request, n, group.index).size(), n - 1);
      }
      break;
    case Operation::all_gather:
      add(part_of(request, n, group.index).size(), n - 1);
      break;
    case Operation::reduce_scatter:
      add_parts_of_others();
      break;
    case Operation::all_to_all:
      for (int64_t p = 0; p < n; ++p)
        if (p != group.index) add(request.send_counts[static_cast<size_t>(p)] * size_of(request.dtype));
      break;
    case Operation::broadcast:
      if (request.peer == group.index) add(bytes_of(request), n - 1);
      break;
    case Operation::send:
      add(bytes_of(request));
      break;
    case Operation::recv:
      break;
    case Operation::barrier:
      cost = {n - 1, 0};
      break;
  }
  return cost;
}

void check_request(const GroupInfo& group, const Request& request) {
  const size_t n = group.ranks.size();
  const auto refuse = [&](const std::string& why) {
    fail(ErrorKind::internal,
         fmt::format("{} in the {} group of {} ranks: {}", name(request.operation), group.axis, n, why));
  };
  if (group.index < 0 || static_cast<size_t>(group.index) >= n)
    refuse(fmt::format("index {} is not in the group", group.index));
  if (request.rows < 0 || request.row_elements < 0)
    refuse(fmt::format("negative size {} x {}", request.rows, request.row_elements));
  if (request.operation == Operation::all_to_all) {
    if (request.send_counts.size() != n || request.recv_counts.size() != n)
      refuse(fmt::format("{} send and {} receive counts", request.send_counts.size(), request.recv_counts.size()));
    for (size_t p = 0; p < n; ++p)
      if (request.send_counts[p] < 0 || request.recv_counts[p] < 0)
        refuse(fmt::format("a negative count for peer {}", p));
    const auto me = static_cast<size_t>(group.index);
    if (request.send_counts[me] != request.recv_counts[me])
      refuse(fmt::format("{} elements sent to itself, {} received", request.send_counts[me], request.recv_counts[me]));
  }
  const bool message = request.operation == Operation::send || request.operation == Operation::recv;
  if (message || request.operation == Operation::broadcast) {
    if (request.peer < 0 || static_cast<size_t>(request.peer) >= n)
      refuse(fmt::format("peer {} is not in the group", request.peer));
    if (message && request.peer == group.index) refuse("a rank cannot exchange messages with itself");
  }
}

void check_chunk_limit(int64_t message_chunk_bytes) {
  constexpr int64_t kMin = 64, kMax = int64_t{1} << 30;
  if (message_chunk_bytes < kMin || message_chunk_bytes > kMax)
    fail(ErrorKind::config, fmt::format("message_chunk_bytes is {}; it must be in {} ... {}, the nearest is {}",
                                        message_chunk_bytes, kMin, kMax, std::clamp(message_chunk_bytes, kMin, kMax)));
}

}  // namespace trainctl
