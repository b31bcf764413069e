// lib/comm/mpi_transport.h -- messages between processes over MPI. No MPI type appears here.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trainctl {

// open() starts MPI (unless it runs already) and makes a communicator of its own; close() ends what open() started.
std::unique_ptr<Transport> make_mpi_transport();

}  // namespace trainctl
