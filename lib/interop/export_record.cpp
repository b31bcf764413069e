// lib/interop/export_record.cpp -- comparing a folder with the digests that its export wrote down.
#include "interop/export_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/posix_io.h"
#include "interop/hf_source.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kPiece = 1 << 20;
constexpr const char* kRemedy =
    "what to do: copy the folder again, or export it again; where a file was changed on purpose, remove "
    "trainctl_export.json, and the folder is imported as one of any other program";

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  fail(ErrorKind::input, fmt::format("{}: {}\n{}", (folder / kExportRecord).string(), why, kRemedy));
}

// Empty for a record without digests.
FileDigests recorded(const fs::path& folder) {
  const std::string text = read_hf_file(folder, std::string(kExportRecord));
  const auto record = nlohmann::json::parse(text, nullptr, false);
  if (!record.is_object()) refuse(folder, "it is no JSON object any more, so the files cannot be compared with it");
  if (!record.contains("digests")) return {};
  FileDigests digests;
  if (!record["digests"].is_object()) refuse(folder, "\"digests\" is no object");
  for (const auto& [name, digest] : record["digests"].items()) {
    const bool plain = is_safe_relative_path(name) && name.find('/') == std::string::npos;
    if (!plain || !digest.is_object() || !digest.value("bytes", nlohmann::json()).is_number_integer() ||
        !digest.value("xxh128", nlohmann::json()).is_string())
      refuse(folder, fmt::format("\"digests\" does not say of {} how many bytes it has and their xxh128",
                                 nlohmann::json(name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
    digests[name] = {digest["bytes"].get<int64_t>(), digest["xxh128"].get<std::string>()};
  }
  digests.erase("README.md");
  return digests;
}

}  // namespace

FileDigest digest_of_file(const fs::path& path, const std::function<void(int64_t)>& read) {
  const FileHandle file = FileHandle::open_for_reading(path);
  const int64_t size = file.size();
  std::vector<char> piece(static_cast<size_t>(std::min(kPiece, size)));
  Xxh128 digest;
  for (int64_t at = 0; at < size; at += kPiece) {
    const int64_t bytes = std::min(kPiece, size - at);
    file.read_at(piece.data(), bytes, at);
    digest.update(piece.data(), static_cast<size_t>(bytes));
    if (read) read(bytes);
  }
  return {size, digest.hex()};
}

int64_t check_export_record(const fs::path& folder, const Progress& progress) {
  if (!has_hf_file(folder, std::string(kExportRecord))) return 0;
  const FileDigests digests = recorded(folder);
  int64_t total = 0, done = 0;
  for (const auto& [name, expected] : digests) total += std::max<int64_t>(expected.bytes, 0);
  std::vector<std::string> faults;
  for (const auto& [name, expected] : digests) {
    const int64_t bytes = regular_file_bytes(folder / name);
    if (bytes != expected.bytes) {
      faults.push_back(bytes < 0 ? fmt::format("{} is missing, or no regular file", name)
                                 : fmt::format("{} has {} bytes, {} were written", name, bytes, expected.bytes));
      continue;
    }
    const FileDigest found = digest_of_file(folder / name, [&](int64_t read) {
      done += read;
      if (progress) progress(done, total);
    });
    if (found != expected)
      faults.push_back(fmt::format("{} has the XXH3-128 {}, {} was written", name, found.xxh128, expected.xxh128));
  }
  if (!faults.empty())
    fail(ErrorKind::input, listed(fmt::format("{} is an export of trainctl, and not as it was written "
                                              "(trainctl_export.json):",
                                              folder.string()),
                                  faults) +
                               "\n" + kRemedy);
  return std::ssize(digests);
}

}  // namespace trainctl
