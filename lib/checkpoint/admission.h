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

struct SpacePolicy {
  int64_t margin_bytes = 0;  // free beside 1.1 x the bytes of the save
  int64_t ballast_bytes = 0;
  bool may_use_ballast = false;  // for a save that would not fit otherwise
};

// Removes what dead attempts and interrupted removals left (the run directory's lock makes this rank 0 the only
// writer), lays the ballast while twice its bytes are free, checks free space against 1.1 x bytes + margin, makes the
// attempt's folders. What was put aside is removed when is_succeeded says so for `run_id`. Never throws: a full or
// read-only disk is a reason.
Admission admit_save(const std::filesystem::path& root, int64_t step, int64_t bytes, const SpacePolicy& space,
                     const std::string& run_id);

// Removes the ballast, which is there for the moment in which a disk is full. False when there was none.
bool give_up_ballast(const std::filesystem::path& root) noexcept;

}  // namespace trainctl
