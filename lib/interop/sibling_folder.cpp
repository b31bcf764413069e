// lib/interop/sibling_folder.cpp -- making, locking and cleaning up.
#include "interop/sibling_folder.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kLockName = ".writing";

// Siblings whose writer is gone: their lock can be had.
void remove_leftovers(const fs::path& parent, const std::string& prefix) {
  for (const std::string& name : names_in(parent)) {
    if (!name.starts_with(prefix)) continue;
    FileLock lock;
    std::string holder;
    if (fs::exists(parent / name / kLockName) && !lock.try_acquire(parent / name / kLockName, "", &holder)) continue;
    remove_tree(parent / name);
  }
}

}  // namespace

SiblingFolder::SiblingFolder(const fs::path& output, const std::string& purpose)
    : parent_(output.parent_path()), prefix_(fmt::format(".{}.trainctl-{}-", output.filename().string(), purpose)) {
  make_directories(parent_);
  remove_leftovers(parent_, prefix_);
  path_ = another();
  make_directories(path_);
  std::string holder;
  ensure(lock_.try_acquire(path_ / kLockName, purpose, &holder), "somebody else locked a folder with a random name");
}

SiblingFolder::~SiblingFolder() {
  if (!moved_) remove_tree(path_);
}

fs::path SiblingFolder::another() const { return parent_ / (prefix_ + random_hex(12)); }

void SiblingFolder::seal() {
  fs::remove(path_ / kLockName);
  sync_directory(path_);
}

fs::path output_folder(const fs::path& given, const std::string& option) {
  fs::path output = fs::absolute(given).lexically_normal();
  if (output.filename().empty()) output = output.parent_path();  // a trailing slash
  if (output.filename().empty()) fail(ErrorKind::usage, option + " is the root folder; name a new one");
  return output;
}

}  // namespace trainctl
