// lib/checkpoint/readback.h -- checkpoint.verify_after_save = "readback": after the commit every rank's writer reads
// its own files back, leaves a verdict, and rank 0 writes VERIFIED, or UNUSABLE naming file and block. Training goes on
// meanwhile; the save is in flight until then.
#pragma once

#include <string>

#include "checkpoint/save_job.h"

namespace trainctl {

// Rank 0, before COMMITTED: the place for the verdicts, which tells the other ranks that they are collected. Returns
// why there is none; then nobody reads anything back.
std::string open_readback(const SaveJob& job) noexcept;

// Rank 0: takes the place away, which tells the other ranks that all is decided. read_back does it; who opened and
// comes to no read_back must. Nothing to take away is no fault.
void close_readback(const SaveJob& job) noexcept;

// Rank 0, after COMMITTED: its own files, then everybody's verdict within the deadline. `closed`: what open_readback
// returned.
struct Readback {
  std::string damage;  // "rank 1: data/...: block 3 ...": the checkpoint is marked UNUSABLE; "" when it is whole
  std::string note;    // why it is neither verified nor damaged; "" otherwise
};
Readback read_back(const SaveJob& job, const std::string& manifest_sha256, const std::string& closed);

// The other ranks, after COMMITTED. Returns when rank 0 has the verdicts, or nobody collects them. Throws
// Error{checkpoint} when the checkpoint turned out damaged.
void read_back_own(const SaveJob& job);

}  // namespace trainctl
