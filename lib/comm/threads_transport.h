// lib/comm/threads_transport.h -- messages between ranks that are threads of one process.
#pragma once

#include <memory>
#include <string>

#include "comm/transport.h"

namespace trainctl {

class ThreadsExchange;  // the mailboxes of all ranks
std::shared_ptr<ThreadsExchange> make_threads_exchange(int size);
// Every transfer of every rank fails from now on with Error{rank_failed} and this reason; the first reason stays.
void abort_exchange(ThreadsExchange& exchange, const std::string& reason);
std::unique_ptr<Transport> make_threads_transport(std::shared_ptr<ThreadsExchange> exchange, int rank);

}  // namespace trainctl
