// lib/checkpoint/image_writer.h -- S3 to S5 on one rank: the file images of the staging area to files on disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/save_job.h"
#include "checkpoint/staging.h"

namespace trainctl {

inline constexpr int64_t kWriteBytes = 2 * kBlockBytes;  // of one write

struct WrittenFiles {
  std::vector<FileRecord> files;  // with their digests
  int64_t non_finite = 0;         // elements that are infinite or not a number
  std::string io_path;            // Transfers::path_in_use
};

// Creates all files (O_EXCL, space reserved), then writes them in aligned pieces straight from the image, several in
// flight, within the job's rate limit; the digest of a block is taken just before it is written. The padding after a
// file's last byte is written with it and cut off again; then fdatasync and a look at the size. Throws Error.
WrittenFiles write_images(const SaveJob& job, StagingArea& staging);

}  // namespace trainctl
