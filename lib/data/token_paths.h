// lib/data/token_paths.h -- from what a user typed to the two files PREFIX.bin and PREFIX.idx.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl {

struct TokenPaths {
  std::filesystem::path bin;  // token ids
  std::filesystem::path idx;  // sizes, pointers, documents
};

// `given` is PREFIX, PREFIX.bin or PREFIX.idx. PREFIX itself may contain dots, spaces, a leading dash, and may end in
// ".bin" (PREFIX is tried as it stands first). A symbolic link to one of the files is followed when its own neighbours
// do not exist. Throws Error{input} that lists every file looked for and whether it exists.
TokenPaths find_token_files(const std::filesystem::path& given);

// The names to write: `given` without a trailing ".bin" or ".idx", plus both extensions. Throws Error{usage} when
// nothing is left of the name.
TokenPaths token_files_to_write(const std::filesystem::path& given);

}  // namespace trainctl
