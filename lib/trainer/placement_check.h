// lib/trainer/placement_check.h -- do ranks of one host share cores without having been told to?
#pragma once

#include <string>
#include <vector>

namespace trainctl {

// "host\ncores": this process's host and the cores it may run on, as a list such as "0-3,8".
std::string place_text();

// One sentence per set of ranks of a host that are bound to the same cores. Ranks that may run on every core of their
// host are not bound and do not clash. `places`: place_text() of every rank, in rank order.
std::vector<std::string> shared_cores(const std::vector<std::string>& places);

}  // namespace trainctl
