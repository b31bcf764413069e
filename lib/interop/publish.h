// lib/interop/publish.h -- a folder that appears whole or not at all, and replaces only what we wrote earlier.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "interop/export_record.h"
#include "interop/sibling_folder.h"

namespace trainctl {

// Files are written into folder(), a hidden sibling of the output; publish() puts it in place. The destructor removes
// what was not published. What a killed export left beside the same output is removed at construction.
class PublishedFolder {
 public:
  // Refuses (Error{usage}) an output that exists and is neither an empty folder nor an export of ours, or that holds
  // files the export did not write. Throws Error{environment} when the folder cannot be made.
  explicit PublishedFolder(const std::filesystem::path& output);
  const std::filesystem::path& folder() const { return folder_.path(); }
  // fsyncs the folder and moves it to the output, exchanging it with an earlier export in one step where the file
  // system can. The folder must hold kExportRecord.
  void publish();

 private:
  std::filesystem::path output_;
  SiblingFolder folder_;
};

}  // namespace trainctl
