// tests/unit/comm/world_test.cpp -- process groups over a mesh: tensors, memory, records, traffic.
#include "comm/world.h"

#include "support/catch.h"
#include "support/thread_ranks.h"

using namespace trainctl;
using namespace trainctl::testing;

namespace {

// One rank's device side.
struct Rank {
  std::unique_ptr<Device> device = make_cpu_device();
  Arena arena{*device};
  std::unique_ptr<Stream> stream = device->make_compute_stream();
  Tensor filled(Shape shape, float value) {
    Tensor t(arena, shape, DType::f32, MemoryCategory::activations);
    for (int64_t i = 0; i < t.numel(); ++i) t.view().as<float>()[i] = value;
    return t;
  }
};

int64_t communication_bytes(const Arena& arena) {
  return arena.counters().now[static_cast<size_t>(MemoryCategory::communication)];
}

}  // namespace

TEST_CASE("a world finds its groups and sums along one axis only", "[comm][world]") {
  run_thread_ranks(8, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.tensor = 2, .data = 2, .pipeline = 2}), std::move(backend), rank.arena);
    const Coordinates at = world.coordinates();
    require(world.group(Axis::tensor).size() == 2 && world.all().size() == 8, "wrong sizes");
    require(world.group(Axis::tensor).rank() == at.tensor, "wrong place in the tensor group");
    require(world.group(Axis::context).size() == 1, "an axis of size one has a group of one");
    const Tensor t = rank.filled({5}, static_cast<float>(1 + world.rank()));
    world.group(Axis::data).all_reduce(t, Reduce::sum, *rank.stream).wait();
    float expected = 0;
    for (const int r : world.group(Axis::data).info().ranks) expected += static_cast<float>(1 + r);
    require(t.view().as<float>()[4] == expected, "wrong sum over the data axis");
    require(world.embedding_ends().size() == 2, "with two stages every rank is at an end");
    world.finalize();
  });
}

TEST_CASE("embedding ends join the first and the last stage and nobody else", "[comm][world]") {
  run_thread_ranks(3, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.pipeline = 3}), std::move(backend), rank.arena);
    const bool middle = world.rank() == 1;
    require(world.embedding_ends().size() == (middle ? 1 : 2), "wrong size");
    require(world.embedding_ends().info().ranks == (middle ? std::vector{1} : std::vector{0, 2}), "wrong ranks");
    world.finalize();
  });
}

TEST_CASE("a mesh of another size than the running world is refused with both sizes", "[comm][world]") {
  Rank rank;
  CHECK_THROWS_WITH(World(Mesh({.tensor = 4}), make_counting_collectives(0, 2, 4096), rank.arena),
                    Catch::Contains("mesh has 4 ranks") && Catch::Contains("2 are running"));
}

TEST_CASE("gathered parts and scattered sums have the shapes of the contract", "[comm][world]") {
  run_thread_ranks(3, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.tensor = 3}), std::move(backend), rank.arena);
    ProcessGroup& group = world.group(Axis::tensor);
    const int64_t rows = group.rank() == 0 ? 3 : 2;  // seven rows over three ranks
    const Tensor part = rank.filled({rows, 4}, static_cast<float>(group.rank()));
    const Tensor whole = rank.filled({7, 4}, -1);
    group.all_gather(part, whole, *rank.stream).wait();
    const float owners[] = {0, 0, 0, 1, 1, 2, 2};
    for (int i = 0; i < 28; ++i) require(whole.view().as<float>()[i] == owners[i / 4], "wrong row owner");
    group.reduce_scatter(whole, part, Reduce::sum, *rank.stream).wait();
    for (int64_t i = 0; i < part.numel(); ++i)
      require(part.view().as<float>()[i] == static_cast<float>(3 * group.rank()), "wrong scattered sum");
    bool refused = false;
    try {
      group.all_gather(rank.filled({4, 4}, 0), whole, *rank.stream).wait();
    } catch (const Error& e) {
      refused = std::string(e.what()).find("is not part") != std::string::npos;
    }
    require(refused, "a part with too many rows was accepted");
    world.finalize();
  });
}

TEST_CASE("a group of one copies where the formula says so and sends nothing", "[comm][world]") {
  run_thread_ranks(1, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({}), std::move(backend), rank.arena);
    const Tensor in = rank.filled({3, 2}, 5), out = rank.filled({3, 2}, 0), back = rank.filled({3, 2}, 0);
    world.all().all_gather(in, out, *rank.stream).wait();
    world.all().reduce_scatter(out, back, Reduce::sum, *rank.stream).wait();
    world.all().all_reduce(back, Reduce::max, *rank.stream).wait();
    const int64_t counts[] = {6};
    world.all().all_to_all(back, in, counts, counts, *rank.stream).wait();
    world.all().broadcast(in, 0, *rank.stream).wait();
    world.all().barrier(*rank.stream);
    require(in.view().as<float>()[5] == 5 && world.traffic().empty(), "wrong copy, or something was sent");
    require(world.recorder().recent(100).size() == 6 && world.recorder().unfinished().empty(), "not recorded");
    world.finalize();
  });
}

TEST_CASE("scratch lives until the wait and is counted as communication memory", "[comm][world]") {
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank, dry;
    const auto counting = make_counting_collectives(backend->rank(), 2, CollectivesOptions{}.message_chunk_bytes);
    Recorder recorder;
    World world(Mesh({.data = 2}), std::move(backend), rank.arena);
    ProcessGroup dry_group(world.all().info(), *counting, dry.arena, recorder);
    const Tensor t = rank.filled({100000}, 1), u = dry.filled({100000}, 1);
    Pending pending = world.all().all_reduce(t, Reduce::sum, *rank.stream);
    Pending dry_pending = dry_group.all_reduce(u, Reduce::sum, *dry.stream);
    require(communication_bytes(rank.arena) >= 200000, "no scratch was taken");
    require(communication_bytes(rank.arena) == communication_bytes(dry.arena), "the dry run takes another amount");
    pending.wait();
    dry_pending.wait();
    require(communication_bytes(rank.arena) == 0 && communication_bytes(dry.arena) == 0, "scratch was not given back");
    require(rank.arena.counters().peak_total == dry.arena.counters().peak_total, "peaks differ");
    world.finalize();
  });
}

TEST_CASE("destroying or overwriting a pending operation waits for it", "[comm][world]") {
  run_thread_ranks(2, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.data = 2}), std::move(backend), rank.arena);
    const Tensor t = rank.filled({50000}, 1), u = rank.filled({50000}, 1);
    { const Pending pending = world.all().all_reduce(t, Reduce::sum, *rank.stream); }
    require(t.view().as<float>()[49999] == 2, "the destructor did not wait");
    Pending pending = world.all().all_reduce(t, Reduce::sum, *rank.stream);
    pending = world.all().all_reduce(u, Reduce::sum, *rank.stream);
    require(t.view().as<float>()[49999] == 4, "the assignment did not wait");
    pending.wait_on(*rank.stream);
    require(u.view().as<float>()[0] == 2 && pending.done(), "wait_on did not wait");
    pending.wait();  // a second wait is harmless
    world.finalize();
  });
}

TEST_CASE("traffic names axis and operation, and gathering text is not counted", "[comm][world]") {
  run_thread_ranks(4, {}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.tensor = 2, .pipeline = 2}), std::move(backend), rank.arena);
    const Tensor t = rank.filled({10}, 1);
    world.group(Axis::tensor).all_reduce(t, Reduce::sum, *rank.stream).wait();
    ProcessGroup& pipeline = world.group(Axis::pipeline);
    if (pipeline.rank() == 0)
      pipeline.send(t, 1, *rank.stream).wait();
    else
      pipeline.recv(t, 0, *rank.stream).wait();
    const std::string long_text(static_cast<size_t>(world.rank()) * 5000, 'x');
    const auto texts = world.gather_text("rank " + std::to_string(world.rank()) + long_text, *rank.stream);
    if (world.rank() == 0) {
      require(texts.size() == 4 && texts[0] == "rank 0", "wrong texts");
      for (size_t r = 0; r < 4; ++r)
        require(texts[r] == "rank " + std::to_string(r) + std::string(r * 5000, 'x'), "wrong text of a rank");
    } else {
      require(texts.empty(), "only rank 0 gets texts");
    }
    std::vector<TrafficRow> expected = {{"tensor", "all_reduce", 1, 40}};
    if (pipeline.rank() == 0) expected.push_back({"pipeline", "send", 1, 40});
    require(world.traffic() == expected, "wrong traffic");
    world.finalize();
  });
}

TEST_CASE("gathering text in a dry run gives this rank's own", "[comm][world]") {
  Rank rank;
  World world(Mesh({.data = 3}), make_counting_collectives(0, 3, 4096), rank.arena);
  CHECK(world.gather_text("mine", *rank.stream) == std::vector<std::string>{"mine", "", ""});
  CHECK(world.traffic().empty());
}

TEST_CASE("bytes between two ranks arrive in order, are recorded, and count as no traffic", "[comm][world]") {
  run_thread_ranks(3, {.message_chunk_bytes = 4096}, [](std::unique_ptr<Collectives> backend) {
    Rank rank;
    World world(Mesh({.data = 3}), std::move(backend), rank.arena);
    const auto content = [](int from, int to, int k) {
      std::string text = fmt::format("{} to {}: {} ", from, to, k);
      while (text.size() < static_cast<size_t>(k) * 5000) text += text;
      return text;
    };
    std::vector<std::string> out, in;  // before what reads and writes them
    std::vector<Pending> pending;
    for (int peer = 0; peer < 3; ++peer)
      for (int k = 0; k < 4 && peer != world.rank(); ++k) {
        out.push_back(content(world.rank(), peer, k));
        in.emplace_back(content(peer, world.rank(), k).size(), '?');
      }
    size_t i = 0;
    for (int peer = 0; peer < 3; ++peer)
      for (int k = 0; k < 4 && peer != world.rank(); ++k, ++i) {
        pending.push_back(world.send_bytes(peer, out[i].data(), std::ssize(out[i])));
        pending.push_back(world.receive_bytes(peer, in[i].data(), std::ssize(in[i])));
      }
    for (Pending& p : pending) p.wait();
    i = 0;
    for (int peer = 0; peer < 3; ++peer)
      for (int k = 0; k < 4 && peer != world.rank(); ++k, ++i)
        require(in[i] == content(peer, world.rank(), k), "other bytes came");
    require(world.traffic().empty() && communication_bytes(rank.arena) == 0, "counted");
    require(world.recorder().recent(100).size() == 16 && world.recorder().unfinished().empty(), "not recorded");
    world.finalize();
  });
}
