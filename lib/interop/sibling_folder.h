// lib/interop/sibling_folder.h -- a hidden, locked folder beside the output in which something is prepared.
#pragma once

#include <filesystem>
#include <string>

#include "base/atomic_file.h"

namespace trainctl {

// ".<name of the output>.trainctl-<purpose>-<random>", in the output's parent, which is made where needed. At
// construction the folders of the same output and purpose whose writer is gone are removed.
class SiblingFolder {
 public:
  // `output` is absolute and normal. Throws Error{environment} when the folder cannot be made.
  SiblingFolder(const std::filesystem::path& output, const std::string& purpose);
  ~SiblingFolder();  // removes the folder unless it was moved away
  SiblingFolder(const SiblingFolder&) = delete;
  SiblingFolder& operator=(const SiblingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // A name for something else of the same kind, which a later writer removes when this one dies.
  std::filesystem::path another() const;
  // The lock's file goes and the folder is synced: the next call moves it away. The lock itself is held till the end.
  void seal();
  void moved() { moved_ = true; }

 private:
  std::filesystem::path parent_, path_;
  std::string prefix_;
  FileLock lock_;
  bool moved_ = false;
};

// Absolute and normal, without a trailing slash. `option` names the command-line option in Error{usage} for "/".
std::filesystem::path output_folder(const std::filesystem::path& given, const std::string& option);

}  // namespace trainctl
