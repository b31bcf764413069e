// lib/topology/flop_loop_generic.cpp -- the loops of a processor that has no hand-written one.
#include "topology/flop_loop_portable.h"

namespace trainctl {

std::vector<FlopLoop> f32_flop_loops() { return {portable_flop_loop()}; }
std::vector<FlopLoop> bf16_flop_loops() { return {}; }

}  // namespace trainctl
