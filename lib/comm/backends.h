// lib/comm/backends.h -- making the backends that move data: real processes over MPI, and ranks as threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/collectives.h"

namespace trainctl {

struct CollectivesOptions {
  int64_t message_chunk_bytes = 1 << 20;  // the largest message, 64 ... 2^30; equal on every rank
};

// Starts MPI on a communication thread of its own, which owns it until finalize(). Run alone (without mpirun) it is a
// world of one rank. Once per process. Throws Error{environment} when MPI cannot start.
std::unique_ptr<Collectives> make_mpi_world_collectives(const CollectivesOptions& options = {});

// Ends every process of the MPI job with this exit code, from any thread; does not return. Without MPI: this process.
[[noreturn]] void abort_mpi(int code);

// Ranks as threads of one process. Each rank's thread takes its own Collectives; the hub is kept alive by them.
class ThreadsHub {
 public:
  virtual ~ThreadsHub() = default;
  virtual int size() const = 0;
  virtual std::unique_ptr<Collectives> collectives_for(int rank, const CollectivesOptions& options = {}) = 0;
  // Every pending and later operation of every rank fails with Error{rank_failed} and this reason: what MPI_Abort is to
  // processes. Callable from any thread; the first reason stays.
  virtual void abort(const std::string& reason) = 0;
};
std::shared_ptr<ThreadsHub> make_threads_hub(int size);

}  // namespace trainctl
