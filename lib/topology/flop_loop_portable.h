// lib/topology/flop_loop_portable.h -- the loop for any processor: the compiler's own vectors, multiply then add.
#pragma once

#include "topology/flop_loop.h"

namespace trainctl {

FlopLoop portable_flop_loop();

}  // namespace trainctl
