// lib/topology/hostlist.h -- Slurm-style host lists: "n[001-004,010],m7" to names and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

inline constexpr size_t kMaxHosts = 1 << 17;  // a list that names more is refused before it is expanded

// The names in the order written. A range keeps the width of its first number ("[008-011]" gives 008 ... 011); several
// brackets in one name vary like the digits of a number, the last one fastest.
// Throws Error{config} with the offending part and what is legal: empty lists or parts, unbalanced brackets, descending
// or non-numeric ranges, characters other than letters, digits, '.', '_', '-', names beyond 253 characters,
// more than kMaxHosts names.
std::vector<std::string> expand_hostlist(std::string_view list);

// The shortest list of neighbours-in-order ranges: expand_hostlist(compress_hostlist(names)) == names for every vector
// of legal names. An empty vector gives "".
std::string compress_hostlist(const std::vector<std::string>& names);

}  // namespace trainctl
