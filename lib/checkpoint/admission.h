// lib/checkpoint/admission.h -- S0: may this save start, and the ground it starts from. Rank 0 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainctl {

struct Admission {
  bool go = false;
  std::string attempt;  // when go: 128-bit random, its staging folder exists
  std::string reason;   // when not
};

// Removes what dead attempts and interrupted removals left (the run directory's lock makes this rank 0 the only
// writer), checks free space against 1.1 x bytes + margin, lays the ballast, makes the attempt's folders. Never throws:
// a full or read-only disk is a reason.
Admission admit_save(const std::filesystem::path& root, int64_t step, int64_t bytes, int64_t margin_bytes,
                     int64_t ballast_bytes);

}  // namespace trainctl
