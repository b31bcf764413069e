// lib/base/build_info.h -- which build this is. Linked into programs as the target trainctl_build_info.
#pragma once

#include <string_view>

namespace trainctl {

std::string_view version();  // "0.1.0"

// A commit ("4c1f09ab22d0"), a commit with local changes ("4c1f09ab22d0-dirty-5d3c2a10"), or, without git, a digest of
// the sources ("src-5d3c2a10c7e1"). Programs linked in one build have the same id.
std::string_view build_id();

}  // namespace trainctl
