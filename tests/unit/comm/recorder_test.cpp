// tests/unit/comm/recorder_test.cpp -- the flight recorder: sequence numbers, what is unfinished, where a rank is.
#include "comm/recorder.h"

#include "comm/world.h"
#include "support/catch.h"
#include "support/collective_laws.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

Request request_of(Operation operation, int64_t rows, int peer = -1) {
  Request request;
  request.operation = operation;
  request.dtype = DType::f32;
  request.rows = rows;
  request.row_elements = 2;
  request.peer = peer;
  return request;
}

}  // namespace

TEST_CASE("sequence numbers count collectives per group and messages per direction and peer", "[comm][recorder]") {
  Recorder recorder;
  const GroupInfo a = group_of(1, "tensor", {0, 1}, 0), b = group_of(5, "pipeline", {0, 2, 4}, 0);
  recorder.begin(a, request_of(Operation::all_reduce, 4));
  recorder.begin(b, request_of(Operation::send, 4, 1));
  recorder.begin(b, request_of(Operation::send, 4, 2));
  recorder.begin(b, request_of(Operation::recv, 4, 1));
  recorder.begin(b, request_of(Operation::send, 4, 1));
  recorder.begin(a, request_of(Operation::barrier, 0));
  std::vector<int64_t> sequences;
  for (const OperationRecord& r : recorder.recent(100)) sequences.push_back(r.sequence);
  CHECK(sequences == std::vector<int64_t>{0, 0, 0, 0, 1, 1});
}

TEST_CASE("a record names operation, group, ranks, bytes and whether it finished", "[comm][recorder]") {
  Recorder recorder;
  const GroupInfo group = group_of(5, "pipeline", {0, 2, 4}, 0);
  const int64_t first = recorder.begin(group, request_of(Operation::all_gather, 10));
  recorder.begin(group, request_of(Operation::recv, 3, 2));
  REQUIRE(recorder.unfinished().size() == 2);
  recorder.end(first);
  const auto unfinished = recorder.unfinished();
  REQUIRE(unfinished.size() == 1);
  CHECK(describe(unfinished[0]) == "recv from rank 4 #0 in the pipeline group (ranks 0,2,4), 24 bytes, not finished");
  const auto recent = recorder.recent(2);
  REQUIRE(recent.size() == 2);
  CHECK_THAT(describe(recent[0]), Catch::Contains("all_gather #0 in the pipeline group (ranks 0,2,4), 80 bytes, took"));
  CHECK(recent[0].end_ns >= recent[0].start_ns);
  CHECK(recorder.recent(1).front().operation == Operation::recv);
}

TEST_CASE("an old unfinished operation survives any number of later ones", "[comm][recorder]") {
  Recorder recorder(8);
  const GroupInfo group = group_of(0, "world", {0, 1}, 0);
  recorder.begin(group, request_of(Operation::broadcast, 1, 0));
  for (int i = 0; i < 100; ++i) recorder.end(recorder.begin(group, request_of(Operation::barrier, 0)));
  CHECK(recorder.recent(1000).size() <= 8);
  REQUIRE(recorder.unfinished().size() == 1);
  CHECK(recorder.unfinished()[0].operation == Operation::broadcast);
}

TEST_CASE("the place names what runs and in which layer", "[comm][recorder]") {
  Recorder recorder;
  CHECK(recorder.place_since_ns() == 0);
  recorder.set_place("forward attention", 3);
  recorder.set_step(12);
  CHECK(recorder.place() == "forward attention, layer 3");
  CHECK(recorder.step() == 12);
  CHECK(recorder.place_since_ns() > 0);
  recorder.set_place("optimizer");
  CHECK(recorder.place() == "optimizer");
}

TEST_CASE("what a world did is in its recorder, finished, with equal sequence numbers", "[comm][recorder]") {
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    const auto device = make_cpu_device();
    Arena arena(*device);
    const auto stream = device->make_compute_stream();
    World world(Mesh({.pipeline = 2}), std::move(backend), arena);
    ProcessGroup& group = world.group(Axis::pipeline);
    const Tensor t(arena, {100}, DType::i32, MemoryCategory::other);
    stream->enqueue([&] { std::fill_n(t.view().as<int32_t>(), 100, 1); });
    group.all_reduce(t, Reduce::sum, *stream).wait();
    if (group.rank() == 0)
      group.send(t, 1, *stream).wait();
    else
      group.recv(t, 0, *stream).wait();
    group.barrier(*stream);
    const auto recent = world.recorder().recent(10);
    require(recent.size() == 3 && world.recorder().unfinished().empty(), "three finished operations");
    require(recent[0].sequence == 0 && recent[1].sequence == 0 && recent[2].sequence == 1, "wrong sequence numbers");
    require(recent[0].bytes == 400 && recent[0].axis == "pipeline" && recent[2].operation == Operation::barrier,
            "wrong contents");
    world.finalize();
  });
}
