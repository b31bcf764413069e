// lib/comm/transport_collectives.h -- the hand-written collectives over a transport, run by one communication thread.
#pragma once

#include <functional>
#include <memory>

#include "comm/backends.h"
#include "comm/transport.h"

namespace trainctl {

// `make` is called on the communication thread, which opens the transport, runs every operation and closes it. Returns
// when it is open; throws what opening threw.
std::unique_ptr<Collectives> make_transport_collectives(std::function<std::unique_ptr<Transport>()> make,
                                                        const CollectivesOptions& options);

}  // namespace trainctl
