// tests/unit/comm/thread_collectives_test.cpp -- the collectives between ranks that are threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "comm/rank_order_reduce.h"
#include "support/catch.h"
#include "support/collective_laws.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

std::vector<int> first_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

TEST_CASE("every collective equals serial arithmetic bit by bit, for every dtype, size and group size", "[comm]") {
  for (int n = 1; n <= 8; ++n)
    for (const int64_t chunk : {int64_t{1003}, int64_t{1} << 20})  // 1003: no whole number of elements
      run_thread_ranks(n, {.message_chunk_bytes = chunk}, [&](std::unique_ptr<Collectives> backend) {
        check_all_collectives(*backend, group_of(0, "world", first_ranks(n), backend->rank()), chunk);
        backend->finalize();
      });
}

TEST_CASE("a group of some ranks in another order works like the world", "[comm]") {
  const std::vector<int> ranks = {4, 1, 3};
  run_thread_ranks(5, {.message_chunk_bytes = 4000}, [&](std::unique_ptr<Collectives> backend) {
    if (std::find(ranks.begin(), ranks.end(), backend->rank()) != ranks.end())
      check_all_collectives(*backend, group_of(7, "some", ranks, backend->rank()), 4000);
    backend->finalize();
  });
}

TEST_CASE("operations of different groups in flight at once do not disturb each other", "[comm]") {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    run_thread_ranks(8, {.message_chunk_bytes = 1024}, [&](std::unique_ptr<Collectives> backend) {
      const int r = backend->rank();
      const std::vector<GroupInfo> groups = {
          group_of(0, "world", first_ranks(8), r),
          group_of(1, "tensor", {r / 2 * 2, r / 2 * 2 + 1}, r),
          group_of(2, "data", {r % 2, r % 2 + 2, r % 2 + 4, r % 2 + 6}, r),
          group_of(3, "pipeline", {r % 4, r % 4 + 4}, r),
          group_of(4, "alone", {r}, r),
      };
      check_concurrent_groups(*backend, groups, 12, seed);
      backend->finalize();
    });
}

TEST_CASE("two ranks that send to each other before they receive do not block, at any size", "[comm]") {
  for (const int64_t elements : {int64_t{0}, int64_t{1}, int64_t{5000}, int64_t{1000000}})
    for (const int64_t chunk : {int64_t{4000}, int64_t{1} << 20})
      run_thread_ranks(2, {.message_chunk_bytes = chunk}, [&](std::unique_ptr<Collectives> backend) {
        check_crossing_sends(*backend, group_of(0, "pipeline", {0, 1}, backend->rank()), elements);
        backend->finalize();
      });
}

TEST_CASE("messages of one direction arrive in the order in which they were sent", "[comm]") {
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    const GroupInfo pair = group_of(0, "pipeline", {0, 1}, backend->rank());
    std::vector<int64_t> numbers(200, -1);
    if (backend->rank() == 0) std::iota(numbers.begin(), numbers.end(), 0);
    std::vector<Event> events;
    for (int64_t& number : numbers) {
      Request request;
      request.operation = backend->rank() == 0 ? Operation::send : Operation::recv;
      request.dtype = DType::i64;
      request.rows = request.row_elements = 1;
      request.peer = 1 - backend->rank();
      request.in = request.out = &number;
      events.push_back(backend->start(pair, request, nullptr));
    }
    for (const Event& event : events) event->wait_host();
    for (size_t i = 0; i < numbers.size(); ++i) require(numbers[i] == static_cast<int64_t>(i), "out of order");
    backend->finalize();
  });
}

TEST_CASE("a NaN of any rank reaches every rank, through sum and max", "[comm]") {
  for (const Reduce reduce : {Reduce::sum, Reduce::max})
    for (const int64_t elements : {3, 100000})  // one round, and in pieces
      for (int guilty = 0; guilty < 3; ++guilty)
        run_thread_ranks(3, {}, [&](std::unique_ptr<Collectives> backend) {
          std::vector<float> values(static_cast<size_t>(elements), 2.0f);
          if (backend->rank() == guilty) values[1] = std::numeric_limits<float>::quiet_NaN();
          Request request;
          request.operation = Operation::all_reduce;
          request.reduce = reduce;
          request.dtype = DType::f32;
          request.out = values.data();
          request.rows = elements;
          request.row_elements = 1;
          const GroupInfo group = group_of(0, "world", {0, 1, 2}, backend->rank());
          std::vector<std::byte> scratch(static_cast<size_t>(backend->scratch_bytes(group, request)));
          request.scratch = scratch.data();
          backend->start(group, request, nullptr)->wait_host();
          require(values[1] != values[1], "the NaN was lost");
          require(values[0] == (reduce == Reduce::sum ? 6.0f : 2.0f), "its neighbour is wrong");
          backend->finalize();
        });
}

TEST_CASE("a max over NaN, infinity and ordinary values is NaN in every order", "[comm]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const auto& order : {std::array{nan, inf, 1.0f}, {inf, nan, 1.0f}, {1.0f, inf, nan}}) {
    float out = 0;
    const void* parts[] = {&order[0], &order[1], &order[2]};
    reduce_in_rank_order(DType::f32, Reduce::max, parts, &out, 1);
    CHECK(out != out);
  }
}

TEST_CASE("an operation starts only after its ready event", "[comm]") {
  class Gate final : public EventState {
   public:
    bool done() const override { return open.load(); }
    void wait_host() override {}
    std::atomic<bool> open{false};
  };
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    const GroupInfo pair = group_of(0, "data", {0, 1}, backend->rank());
    const auto gate = std::make_shared<Gate>();
    int64_t value = 0;
    Request request;
    request.operation = backend->rank() == 0 ? Operation::send : Operation::recv;
    request.peer = 1 - backend->rank();
    request.dtype = DType::i64;
    request.rows = request.row_elements = 1;
    request.in = request.out = &value;
    const Event event = backend->start(pair, request, backend->rank() == 0 ? gate : nullptr);
    if (backend->rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      require(!event->done(), "it did not wait for its ready event");
      value = 42;
      gate->open.store(true);
    }
    event->wait_host();
    require(value == 42, "it read its buffer too early");
    backend->finalize();
  });
}

TEST_CASE("the counting backend counts what the threads backend sends", "[comm]") {
  for (const int64_t chunk : {int64_t{256}, int64_t{1} << 20})
    run_thread_ranks(6, {.message_chunk_bytes = chunk}, [&](std::unique_ptr<Collectives> backend) {
      const auto counting = make_counting_collectives(backend->rank(), 6, chunk);
      const GroupInfo group = group_of(0, "world", first_ranks(6), backend->rank());
      for (const Operation op : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
                                 Operation::all_to_all, Operation::broadcast, Operation::barrier})
        for (const int64_t rows : {0, 5, 700, 70001}) {
          const CollectiveCase c{.operation = op, .dtype = DType::bf16, .rows = rows, .seed = 3};
          CollectiveTrial trial(*backend, group, c);
          trial.start();
          trial.wait();
          require(counting->scratch_bytes(group, trial.request()) == backend->scratch_bytes(group, trial.request()),
                  "scratch differs");
          require(counting->start(group, trial.request(), nullptr) == nullptr, "counting must be done at once");
          require(counting->sent(group, op) == backend->sent(group, op), "costs differ for " + describe(c));
        }
      backend->finalize();
    });
}
