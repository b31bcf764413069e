// tests/support/collective_laws.cpp -- serial references of the collectives, element by element.
#include "support/collective_laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/philox.h"
#include "base/units.h"
#include "comm/exchange_plan.h"

namespace trainctl::testing {
namespace {

constexpr int64_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

template <class F>
void with_type(DType dtype, F&& f) {
  dispatch<float, bf16, double, int32_t, int64_t, uint8_t>(dtype, std::forward<F>(f));
}

template <class T>
T stored(double v) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(v));
  else
    return static_cast<T>(v);
}
template <class T>
double loaded(T v) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<double>(static_cast<float>(v));
  else
    return static_cast<double>(v);
}

// Left to right, in the accumulation type of the contract.
template <class T>
T reduce_serially(const CollectiveCase& c, int ranks, int64_t index) {
  if (c.reduce == Reduce::max) {
    double best = pattern(c, 0, index);
    for (int r = 1; r < ranks; ++r) best = std::max(best, pattern(c, r, index));
    return stored<T>(best);
  }
  using A = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, float>, float,
                               std::conditional_t<std::is_same_v<T, double>, double, int64_t>>;
  A sum = static_cast<A>(pattern(c, 0, index));
  for (int r = 1; r < ranks; ++r) sum = sum + static_cast<A>(pattern(c, r, index));
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(sum);
  else
    return static_cast<T>(sum);
}

// all_to_all counts: uneven, with zeros, and a function of (from, to).
int64_t count_between(const CollectiveCase& c, int from, int to) {
  const int64_t base = c.rows * c.row_elements;
  return (from + 2 * to) % 4 == 3 ? 0 : base / (1 + (from + to) % 3) + (from == to ? 2 : 0);
}

}  // namespace

std::string describe(const CollectiveCase& c) {
  return fmt::format("{} {} of {} [{}, {}], {} values, {}", name(c.operation), name(c.reduce), name(c.dtype), c.rows,
                     c.row_elements, c.exact ? "exact" : "rounded", c.in_place ? "in place" : "apart");
}

double pattern(const CollectiveCase& c, int rank, int64_t index) {
  const auto r = philox(c.seed + 1, static_cast<uint64_t>(rank), static_cast<uint64_t>(index));
  double value = static_cast<double>(r[0] % 15);
  const bool floating = c.dtype == DType::f32 || c.dtype == DType::bf16 || c.dtype == DType::f64;
  if (c.dtype != DType::u8) value -= 7;
  if (floating && !c.exact) value = (unit_interval(r[1]) - 0.5) * std::exp2(static_cast<int>(r[2] % 20) - 10);
  with_type(c.dtype, [&]<class T> { value = loaded(stored<T>(value)); });
  return value;
}

GroupInfo group_of(int id, std::string axis, std::vector<int> ranks, int rank) {
  const auto at = std::find(ranks.begin(), ranks.end(), rank);
  if (at == ranks.end()) throw std::runtime_error("a rank outside its group");
  const int index = static_cast<int>(at - ranks.begin());
  return {.id = id, .axis = std::move(axis), .ranks = std::move(ranks), .index = index};
}

CollectiveTrial::CollectiveTrial(Collectives& backend, const GroupInfo& group, const CollectiveCase& c)
    : backend_(backend), group_(group), c_(c) {
  const int n = static_cast<int>(group_.ranks.size()), me = group_.index;
  request_.operation = c.operation;
  request_.reduce = c.reduce;
  request_.dtype = c.dtype;
  request_.rows = c.rows;
  request_.row_elements = c.row_elements;
  const int64_t elements = c.rows * c.row_elements;
  const Span64 rows = even_split(c.rows, n, me);
  const int64_t part_begin = rows.begin * c.row_elements, part = rows.size() * c.row_elements;
  const auto room = [&](std::vector<std::byte>& buffer, int64_t count) {
    buffer.assign(static_cast<size_t>(2 * kGuard + count * size_of(c.dtype)), kGuardByte);
  };
  const auto at = [&](std::vector<std::byte>& buffer, int64_t index) {
    return buffer.data() + kGuard + index * size_of(c.dtype);
  };
  switch (c.operation) {
    case Operation::all_reduce:
      room(out_, elements);
      fill(out_, 0, me, 0, elements);
      break;
    case Operation::broadcast:
      request_.peer = static_cast<int>(c.seed % static_cast<uint64_t>(n));
      room(out_, elements);
      if (request_.peer == me) fill(out_, 0, me, 0, elements);
      break;
    case Operation::all_gather:
      room(out_, elements);
      if (c.in_place) {
        fill(out_, part_begin, me, part_begin, part);
        request_.in = at(out_, part_begin);
      } else {
        room(in_, part);
        fill(in_, 0, me, part_begin, part);
      }
      break;
    case Operation::reduce_scatter:
      room(in_, elements);
      fill(in_, 0, me, 0, elements);
      if (c.in_place)
        request_.out = at(in_, part_begin);
      else
        room(out_, part);
      break;
    case Operation::all_to_all: {
      int64_t sent = 0, received = 0;
      for (int p = 0; p < n; ++p) {
        request_.send_counts.push_back(count_between(c, me, p));
        request_.recv_counts.push_back(count_between(c, p, me));
        sent += request_.send_counts.back();
        received += request_.recv_counts.back();
      }
      room(in_, sent);
      room(out_, received);
      fill(in_, 0, me, 0, sent);
      break;
    }
    case Operation::send:
      request_.peer = (me + 1) % n;
      room(in_, elements);
      fill(in_, 0, me, 0, elements);
      break;
    case Operation::recv:
      request_.peer = (me + n - 1) % n;
      room(out_, elements);
      break;
    case Operation::barrier:
      break;
  }
  if (!request_.in && !in_.empty()) request_.in = at(in_, 0);
  if (!request_.out && !out_.empty()) request_.out = at(out_, 0);
  scratch_.resize(static_cast<size_t>(backend_.scratch_bytes(group_, request_)) + kGuard, kGuardByte);
  request_.scratch = scratch_.data();
}

void CollectiveTrial::fill(std::vector<std::byte>& buffer, int64_t offset, int rank, int64_t from,
                           int64_t count) const {
  with_type(c_.dtype, [&]<class T> {
    for (int64_t i = 0; i < count; ++i) {
      const T value = stored<T>(pattern(c_, rank, from + i));
      std::memcpy(buffer.data() + kGuard + (offset + i) * size_of(c_.dtype), &value, sizeof value);
    }
  });
}

void CollectiveTrial::start() { event_ = backend_.start(group_, request_, nullptr); }

void CollectiveTrial::wait() {
  if (event_) event_->wait_host();
}

void CollectiveTrial::check() const {
  const int n = static_cast<int>(group_.ranks.size()), me = group_.index;
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error(
        fmt::format("{} in group {} ({} ranks, index {}): {}", describe(c_), group_.id, n, me, what));
  };
  for (const auto* buffer : {&in_, &out_, &scratch_}) {
    const bool guarded = buffer != &scratch_;
    for (size_t i = 0; i < kGuard && i < buffer->size(); ++i) {
      if (guarded && (*buffer)[i] != kGuardByte) refuse("bytes before a buffer were written");
      if ((*buffer)[buffer->size() - 1 - i] != kGuardByte) refuse("bytes behind a buffer were written");
    }
  }
  with_type(c_.dtype, [&]<class T> {
    const auto expect = [&](int64_t at, T want) {
      T got;
      std::memcpy(&got, static_cast<const std::byte*>(request_.out) + at * size_of(c_.dtype), sizeof got);
      if (std::memcmp(&got, &want, sizeof got) != 0)
        refuse(fmt::format("element {} is {}, not {}", at, loaded(got), loaded(want)));
    };
    const int64_t elements = c_.rows * c_.row_elements;
    const Span64 rows = even_split(c_.rows, n, me);
    switch (c_.operation) {
      case Operation::all_reduce:
        for (int64_t i = 0; i < elements; ++i) expect(i, reduce_serially<T>(c_, n, i));
        break;
      case Operation::reduce_scatter:
        for (int64_t i = 0; i < rows.size() * c_.row_elements; ++i)
          expect(i, reduce_serially<T>(c_, n, rows.begin * c_.row_elements + i));
        break;
      case Operation::all_gather:
        for (int r = 0; r < n; ++r) {
          const Span64 theirs = even_split(c_.rows, n, r);
          for (int64_t i = theirs.begin * c_.row_elements; i < theirs.end * c_.row_elements; ++i)
            expect(i, stored<T>(pattern(c_, r, i)));
        }
        break;
      case Operation::broadcast:
        for (int64_t i = 0; i < elements; ++i) expect(i, stored<T>(pattern(c_, request_.peer, i)));
        break;
      case Operation::recv:
        for (int64_t i = 0; i < elements; ++i) expect(i, stored<T>(pattern(c_, request_.peer, i)));
        break;
      case Operation::all_to_all: {
        int64_t at = 0;
        for (int p = 0; p < n; ++p) {
          int64_t begin = 0;
          for (int q = 0; q < me; ++q) begin += count_between(c_, p, q);
          for (int64_t i = 0; i < count_between(c_, p, me); ++i) expect(at++, stored<T>(pattern(c_, p, begin + i)));
        }
        break;
      }
      case Operation::send:
      case Operation::barrier:
        break;
    }
  });
}

void check_collective(Collectives& backend, const GroupInfo& group, const CollectiveCase& c,
                      int64_t message_chunk_bytes) {
  const Cost before = backend.sent(group, c.operation);
  CollectiveTrial trial(backend, group, c);
  trial.start();
  if (c.operation == Operation::send) {
    CollectiveCase back = c;
    back.operation = Operation::recv;
    CollectiveTrial receive(backend, group, back);
    receive.start();
    receive.wait();
    receive.check();
  }
  trial.wait();
  trial.check();
  Cost expected = before;
  expected += predicted_cost(group, trial.request(), message_chunk_bytes);
  const Cost after = backend.sent(group, c.operation);
  if (after != expected)
    throw std::runtime_error(fmt::format("{} on {} ranks: sent {} messages and {} bytes, predicted {} and {}",
                                         describe(c), group.ranks.size(), after.messages - before.messages,
                                         after.bytes - before.bytes, expected.messages - before.messages,
                                         expected.bytes - before.bytes));
}

void check_all_collectives(Collectives& backend, const GroupInfo& group, int64_t message_chunk_bytes) {
  struct Size {
    int64_t rows, row_elements;
  };
  uint64_t seed = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    for (const Size size : {Size{0, 1}, {1, 1}, {999, 1}, {1000, 1}, {1001, 1}, {4097, 1}, {13, 77}, {3, 0}})
      for (const Operation op : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                 Operation::all_to_all, Operation::broadcast, Operation::send, Operation::barrier}) {
        if (op == Operation::send && group.ranks.size() == 1) continue;
        const bool reduces = op == Operation::all_reduce || op == Operation::reduce_scatter;
        for (const Reduce reduce : {Reduce::sum, Reduce::max}) {
          if (!reduces && reduce == Reduce::max) continue;
          ++seed;
          check_collective(backend, group,
                           {.operation = op,
                            .reduce = reduce,
                            .dtype = dtype,
                            .rows = size.rows,
                            .row_elements = size.row_elements,
                            .exact = seed % 3 != 0,
                            .in_place = seed % 2 == 0,
                            .seed = seed},
                           message_chunk_bytes);
        }
      }
}

void check_concurrent_groups(Collectives& backend, const std::vector<GroupInfo>& groups, int operations,
                             uint64_t seed) {
  // What a group does is a function of (seed, group, number); in which order groups take turns is each rank's own.
  const auto case_of = [&](const GroupInfo& group, int k) {
    constexpr Operation kOps[] = {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                  Operation::all_to_all, Operation::broadcast,      Operation::send};
    constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::i64, DType::u8};
    const auto r = philox(seed, static_cast<uint64_t>(group.id), static_cast<uint64_t>(k));
    CollectiveCase c{.operation = kOps[r[0] % 6],
                     .reduce = r[1] % 4 == 0 ? Reduce::max : Reduce::sum,
                     .dtype = kTypes[r[1] / 4 % 4],
                     .rows = static_cast<int64_t>(r[2] % 3000),
                     .row_elements = 1 + static_cast<int64_t>(r[3] % 2),
                     .exact = r[3] / 2 % 2 == 0,
                     .in_place = r[3] / 4 % 2 == 0,
                     .seed = seed + static_cast<uint64_t>(k)};
    if (c.operation == Operation::send && group.ranks.size() == 1) c.operation = Operation::broadcast;
    return c;
  };
  std::vector<int> next(groups.size(), 0);
  std::vector<std::unique_ptr<CollectiveTrial>> open;
  const auto finish = [&](size_t i) {
    open[i]->wait();
    open[i]->check();
    open.erase(open.begin() + static_cast<int64_t>(i));
  };
  const auto mine = static_cast<uint64_t>(backend.rank());
  for (uint64_t turn = 0; std::any_of(next.begin(), next.end(), [&](int k) { return k < operations; }); ++turn) {
    const auto r = philox(seed + 77, mine, turn);
    const size_t g = r[0] % groups.size();
    if (next[g] == operations) continue;
    CollectiveCase c = case_of(groups[g], next[g]++);
    open.push_back(std::make_unique<CollectiveTrial>(backend, groups[g], c));
    open.back()->start();
    if (c.operation == Operation::send) {
      c.operation = Operation::recv;
      open.push_back(std::make_unique<CollectiveTrial>(backend, groups[g], c));
      open.back()->start();
    }
    if (r[1] % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(r[2] % 300));
    // Waiting for one that is finished never blocks on a rank that is waiting for us.
    if (open.size() > 12) {
      const CollectiveTrial& oldest = *open.front();
      if (oldest.done()) finish(0);
    }
  }
  while (!open.empty()) finish(philox(seed + 99, mine, open.size())[0] % open.size());
}

void check_crossing_sends(Collectives& backend, const GroupInfo& pair, int64_t elements) {
  CollectiveCase c{.operation = Operation::send, .dtype = DType::f32, .rows = elements, .seed = 5};
  CollectiveTrial send(backend, pair, c);
  send.start();
  c.operation = Operation::recv;
  CollectiveTrial receive(backend, pair, c);
  receive.start();
  receive.wait();
  send.wait();
  receive.check();
}

}  // namespace trainctl::testing
