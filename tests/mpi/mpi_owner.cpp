// tests/mpi/mpi_owner.cpp -- a process in which the communication thread owns MPI, as in the worker. Modes:
//   sum          all ranks sum, say so on rank 0, and end in order
//   abort CODE   the last rank ends the job from a thread that never called MPI; the others wait for it in an
//   all_reduce leave        the last rank ends its process without a word
#include <fmt/format.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends.h"

using namespace trainctl;

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    const std::unique_ptr<Collectives> backend = make_mpi_world_collectives();
    const int rank = backend->rank(), size = backend->size();
    if (rank == size - 1 && mode == "abort") {
      std::thread other([&] { abort_mpi(std::atoi(argv[2])); });
      other.join();
    }
    if (rank == size - 1 && mode == "leave") std::_Exit(9);

    GroupInfo world{.id = 0, .axis = "world", .ranks = std::vector<int>(static_cast<size_t>(size)), .index = rank};
    std::iota(world.ranks.begin(), world.ranks.end(), 0);
    std::vector<int64_t> values(100000, rank + 1);
    Request request;
    request.operation = Operation::all_reduce;
    request.dtype = DType::i64;
    request.out = values.data();
    request.rows = static_cast<int64_t>(values.size());
    request.row_elements = 1;
    std::vector<std::byte> scratch(static_cast<size_t>(backend->scratch_bytes(world, request)));
    request.scratch = scratch.data();
    backend->start(world, request, nullptr)->wait_host();
    if (values.back() != int64_t{size} * (size + 1) / 2) fail(ErrorKind::internal, "wrong sum");
    if (rank == 0) fmt::print("{} ranks sum to {}\n", size, values.back());
    backend->finalize();
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "{}: {}\n", name(e.kind()), e.what());
    abort_mpi(exit_code(e.kind()));
  }
}
