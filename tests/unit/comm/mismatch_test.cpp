// tests/unit/comm/mismatch_test.cpp -- ranks that disagree get an error that names both sides.
#include <array>

#include "support/catch.h"
#include "support/collective_laws.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

// Runs one case per rank; returns what each rank was told ("" when nothing).
std::array<std::string, 2> told(const std::array<CollectiveCase, 2>& cases,
                                std::array<int64_t, 2> chunks = {4096, 4096}) {
  std::array<std::string, 2> messages;
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto i = static_cast<size_t>(r);
      const auto backend = hub->collectives_for(r, {.message_chunk_bytes = chunks[i]});
      CollectiveTrial trial(*backend, group_of(0, "data", {0, 1}, r), cases[i]);
      try {
        trial.start();
        trial.wait();
      } catch (const Error& e) {
        messages[i] = e.kind() == ErrorKind::comm ? std::string(e.what()) + " @ " + e.where() : "wrong kind";
      }
    });
  for (std::thread& t : threads) t.join();
  return messages;
}

constexpr CollectiveCase kSum{.operation = Operation::all_reduce, .dtype = DType::f32, .rows = 100};

CollectiveCase with(CollectiveCase c, Operation op, Reduce reduce, DType dtype, int64_t rows) {
  c.operation = op;
  c.reduce = reduce;
  c.dtype = dtype;
  c.rows = rows;
  return c;
}

}  // namespace

TEST_CASE("ranks that issue different operations, sizes, dtypes or reductions are told what the other did", "[comm]") {
  struct Case {
    CollectiveCase other;
    std::string named;
  };
  for (const int64_t rows : {int64_t{100}, int64_t{50000}}) {
    const CollectiveCase mine = with(kSum, Operation::all_reduce, Reduce::sum, DType::f32, rows);
    for (const Case& c : {
             Case{with(kSum, Operation::all_gather, Reduce::sum, DType::f32, rows), "all_gather"},
             Case{with(kSum, Operation::reduce_scatter, Reduce::sum, DType::f32, rows), "reduce_scatter"},
             Case{with(kSum, Operation::barrier, Reduce::sum, DType::u8, 0), "barrier"},
             Case{with(kSum, Operation::all_reduce, Reduce::max, DType::f32, rows), "all_reduce max"},
             Case{with(kSum, Operation::all_reduce, Reduce::sum, DType::i32, rows), "of i32"},
             Case{with(kSum, Operation::all_reduce, Reduce::sum, DType::f32, rows + 1), std::to_string(4 * rows + 4)},
             Case{with(kSum, Operation::all_reduce, Reduce::sum, DType::f32, 7), "28 bytes in all"},
         }) {
      const auto messages = told({mine, c.other});
      INFO(c.named << " / " << messages[0] << " / " << messages[1]);
      for (const std::string& message : messages) {
        CHECK_THAT(message, Catch::Contains("data group (ranks 0,1)"));
        CHECK_THAT(message, Catch::Contains("operation #0 all_reduce sum of f32, " + std::to_string(4 * rows)));
        CHECK_THAT(message, Catch::Contains(c.named));
      }
      CHECK_THAT(messages[0], Catch::Contains("@ all_reduce #0 in the data group"));
      CHECK_THAT(messages[0], Catch::Contains("rank 0 issued operation #0 all_reduce"));
      CHECK_THAT(messages[1], Catch::Contains("rank 0 issued operation #0 all_reduce"));
    }
  }
}

TEST_CASE("a message of another size than its receive expects is an error at the receiver", "[comm]") {
  for (const int64_t sent : {int64_t{0}, int64_t{10}, int64_t{100000}})
    for (const int64_t expected : {int64_t{0}, int64_t{10}, int64_t{100000}}) {
      if (sent == expected) continue;
      const std::shared_ptr<ThreadsHub> hub = make_threads_hub(2);
      std::string message;
      std::thread sender([&] {
        const auto backend = hub->collectives_for(0, {});
        CollectiveTrial trial(*backend, group_of(0, "pipeline", {0, 1}, 0),
                              with(kSum, Operation::send, Reduce::sum, DType::f32, sent));
        trial.start();
        try {
          trial.wait();
        } catch (const Error&) {  // the hub is aborted once the receiver knows
        }
      });
      {
        const auto backend = hub->collectives_for(1, {});
        CollectiveTrial trial(*backend, group_of(0, "pipeline", {0, 1}, 1),
                              with(kSum, Operation::recv, Reduce::sum, DType::f32, expected));
        trial.start();
        try {
          trial.wait();
        } catch (const Error& e) {
          message = e.what();
        }
      }
      hub->abort("test over");
      sender.join();
      CHECK_THAT(message, Catch::Contains(std::to_string(4 * sent) + " bytes"));
      CHECK_THAT(message, Catch::Contains(std::to_string(4 * expected) + " bytes"));
    }
}

TEST_CASE("different chunk limits are found at the first operation", "[comm]") {
  for (const std::string& message : told({kSum, kSum}, {4096, 2048})) {
    CHECK_THAT(message, Catch::Contains("message_chunk_bytes differs"));
    CHECK_THAT(message, Catch::Contains("4096 on rank 0"));
  }
}

TEST_CASE("after a mismatch every later operation of the group fails with the first cause", "[comm]") {
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    const GroupInfo group = group_of(0, "data", {0, 1}, backend->rank());
    CollectiveCase c = kSum;
    c.rows += backend->rank();
    CollectiveTrial first(*backend, group, c), second(*backend, group, kSum);
    first.start();
    second.start();
    for (CollectiveTrial* trial : {&first, &second}) {
      std::string message;
      try {
        trial->wait();
      } catch (const Error& e) {
        message = e.what();
      }
      require(message.find("disagree") != std::string::npos, "told only: " + message);
    }
    // Another group is not concerned.
    check_collective(*backend, group_of(1, "world", {0, 1}, backend->rank()), kSum, 1 << 20);
  });
}

TEST_CASE("aborting the hub ends every wait of every rank with the reason", "[comm]") {
  const std::shared_ptr<ThreadsHub> hub = make_threads_hub(3);
  std::array<std::string, 2> messages;
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto backend = hub->collectives_for(r, {});
      CollectiveTrial trial(*backend, group_of(0, "world", {0, 1, 2}, r), kSum);
      trial.start();
      try {
        trial.wait();
      } catch (const Error& e) {
        messages[static_cast<size_t>(r)] = e.kind() == ErrorKind::rank_failed ? e.what() : "wrong kind";
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  hub->abort("rank 2 ran out of memory");
  for (std::thread& t : threads) t.join();
  for (const std::string& message : messages) CHECK(message == "rank 2 ran out of memory");
}

TEST_CASE("a chunk limit outside its range is refused with the nearest legal value", "[comm]") {
  CHECK_THROWS_WITH(make_counting_collectives(0, 1, 10),
                    Catch::Contains("message_chunk_bytes is 10") && Catch::Contains("nearest is 64"));
  CHECK_THROWS_WITH(make_threads_hub(1)->collectives_for(0, {.message_chunk_bytes = int64_t{1} << 40}),
                    Catch::Contains("nearest is 1073741824"));
}
