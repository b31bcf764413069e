// lib/checkpoint/scan.cpp -- judging checkpoint folders.
#include "checkpoint/scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_error.h"
#include "base/hash.h"
#include "base/json_node.h"
#include "checkpoint/markers.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/record_text.h"
#include "checkpoint/save_job.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// The step a scanned name stands for.
std::optional<int64_t> step_of_name(std::string_view name) {
  if (const auto step = step_of_folder(name)) return step;
  if (!name.starts_with(kSupersededPrefix)) return std::nullopt;
  name.remove_prefix(kSupersededPrefix.size());
  const size_t dash = name.rfind('-');
  return dash == std::string_view::npos ? std::nullopt : step_of_folder(name.substr(0, dash));
}

// "" when every component between the folder and the file is a plain folder.
std::string link_fault(const fs::path& folder, const std::string& relative) {
  fs::path at = folder;
  const fs::path parents = fs::path(relative).parent_path();
  for (const fs::path& part : parents) {
    at /= part;
    std::error_code code;
    const fs::file_type type = fs::symlink_status(at, code).type();
    if (type == fs::file_type::not_found) return fmt::format("{} is missing", at.string());
    if (type == fs::file_type::none) return fmt::format("{} cannot be looked at: {}", at.string(), code.message());
    if (type != fs::file_type::directory) return fmt::format("{} is no plain folder (links are refused)", at.string());
  }
  return "";
}

void refuse(const std::string& what) { fail(ErrorKind::checkpoint, what); }

Committed read_committed(const fs::path& folder, CheckpointInfo& info) {
  const Committed committed =
      committed_from_text(read_small_file(folder / kCommittedName, 1 << 20), (folder / kCommittedName).string());
  info.step = committed.step;
  info.kind = committed.kind;
  info.attempt = committed.attempt;
  info.bytes = committed.bytes;
  info.manifest_sha256 = committed.manifest_sha256;
  const auto named = step_of_name(folder.filename().string());
  if (named && *named != committed.step)
    refuse(fmt::format("the folder's name says step {}, COMMITTED says step {}", *named, committed.step));
  return committed;
}

// True when manifest.json and data/ have the sizes that COMMITTED expects. Anything unusual is for a closer look.
bool sizes_agree(const fs::path& folder, const Committed& committed) {
  if (regular_file_bytes(folder / kManifestName) != committed.manifest_bytes) return false;
  std::error_code code;
  if (fs::symlink_status(folder / "data", code).type() != fs::file_type::directory) return committed.files == 0;
  int64_t files = 0, bytes = 0;
  for (const std::string& name : names_in(folder / "data")) {
    const int64_t size = regular_file_bytes(folder / "data" / name);
    if (size < 0) return false;
    ++files;
    bytes += size;
  }
  return files == committed.files && bytes == committed.bytes;
}

Manifest read_checked_manifest(const fs::path& folder, const Committed& committed) {
  check_plain_file(folder, std::string(kManifestName), committed.manifest_bytes);
  const std::string whole = read_small_file(folder / kManifestName, kMaxRecordBytes);
  if (const std::string digest = sha256_hex(whole); digest != committed.manifest_sha256)
    refuse(fmt::format("manifest.json has the SHA-256 {}, COMMITTED expects {}", digest, committed.manifest_sha256));
  Manifest manifest = manifest_from_text(whole, (folder / kManifestName).string());
  int64_t bytes = 0;
  for (const FileRecord& f : manifest.files) {
    check_plain_file(folder, f.path, f.bytes);
    bytes += f.bytes;
  }
  if (manifest.step != committed.step || manifest.attempt != committed.attempt || manifest.kind != committed.kind ||
      bytes != committed.bytes || static_cast<int64_t>(manifest.files.size()) != committed.files)
    refuse("COMMITTED and manifest.json disagree about step, attempt, kind, files or bytes");
  for (const ReceiptRecord& r : manifest.receipts) {
    check_plain_file(folder, r.path, r.bytes);
    const std::string receipt = read_small_file(folder / r.path, kMaxRecordBytes);
    if (xxh128_hex(receipt.data(), receipt.size()) != r.xxh128)
      refuse(fmt::format("{} does not have the digest that the manifest expects", r.path));
  }
  for (const MetaRecord& f : manifest.meta) {
    check_plain_file(folder, f.path, f.bytes);
    const std::string text = read_small_file(folder / f.path, kMaxRecordBytes);
    if (xxh128_hex(text.data(), text.size()) != f.xxh128)
      refuse(fmt::format("{} does not have the digest that the manifest expects", f.path));
  }
  return manifest;
}

// PINNED holds in any form; VERIFIED only when it names this very manifest.
void read_marks(const fs::path& folder, CheckpointInfo& info) {
  if (is_there(folder / kPinnedName)) {
    info.pinned = true;
    try {
      info.pin_reason =
          pinned_from_text(read_small_file(folder / kPinnedName, 1 << 20), (folder / kPinnedName).string()).reason;
    } catch (const Error& e) {
      info.notes.push_back(fmt::format("pinned, but the marker cannot be read: {}", e.what()));
    }
  }
  const auto read_proof = [&](std::string_view marker, const auto& from_text, const auto& take) {
    if (!is_there(folder / marker)) return;
    try {
      const auto proof = from_text(read_small_file(folder / marker, 1 << 20), (folder / marker).string());
      if (proof.manifest_sha256 != info.manifest_sha256)
        refuse(fmt::format("it is of the manifest {}, this one's is {}", proof.manifest_sha256, info.manifest_sha256));
      take(proof);
    } catch (const Error& e) {
      info.notes.push_back(fmt::format("{} is ignored: {}", marker, e.what()));
    }
  };
  read_proof(kVerifiedName, verified_from_text, [&info](const Verified& v) {
    info.verified = true;
    info.verified_how = v.how;
    info.verified_ns = v.time_ns;
  });
  read_proof(kDrilledName, drilled_from_text, [&info](const Drilled& d) {
    info.drilled = true;
    info.drilled_how = d.how;
  });
}

// "" or what this process may not read in the folder, other than what is not there.
std::string reading_fault(const fs::path& folder) {
  std::vector<fs::path> files = {folder / kCommittedName, folder / kManifestName};
  for (const fs::path& directory : {folder, folder / "data"}) {
    std::error_code code;
    fs::directory_iterator at(directory, code);
    for (; !code && at != fs::directory_iterator(); at.increment(code))
      if (directory != folder) files.push_back(at->path());
    if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory)
      return fmt::format("{} cannot be read: {}", directory.string(), code.message());
  }
  for (const fs::path& file : files) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd >= 0)
      ::close(fd);
    else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
      return fmt::format("{} cannot be read: {}", file.string(), std::generic_category().message(errno));
  }
  return "";
}

CheckpointInfo judge(const fs::path& folder, const std::function<void(const Committed&)>& check) {
  CheckpointInfo info;
  info.folder = folder;
  info.step = step_of_name(folder.filename().string()).value_or(-1);
  try {
    if (const std::string why = why_no_folder(folder); !why.empty()) {
      info.reason = why == "does not exist" ? "there is no such folder" : "it " + why;
      info.unreadable = is_there(folder);  // nothing that a save has left: not for prune to take away
      return info;
    }
  } catch (const Error& e) {
    info.reason = e.what();
    info.unreadable = true;
    info.state = CheckpointState::damaged;
    return info;
  }
  const bool marked = is_there(folder / kUnusableName), committed = is_there(folder / kCommittedName);
  if (committed) {
    try {
      info.state = CheckpointState::damaged;
      check(read_committed(folder, info));
      info.state = CheckpointState::usable;
    } catch (const OtherVersion& e) {  // whole, as far as this program can tell: not for prune to take away
      info.reason = e.what();
      info.other_version = true;
    } catch (const std::exception& e) {
      info.reason = e.what();
    }
  } else {
    info.reason = "it was never committed (a save was interrupted)";
  }
  if (info.state != CheckpointState::usable)
    if (const std::string fault = reading_fault(folder); !fault.empty()) {
      info.unreadable = true;
      info.state = CheckpointState::damaged;
      info.reason = fault;
    }
  read_marks(folder, info);
  if (!marked) return info;
  info.state = CheckpointState::unusable;
  info.beneath = std::exchange(info.reason, "marked unusable (the marker itself is not readable)");
  info.proven_damaged = true;
  try {
    const Unusable mark =
        unusable_from_text(read_small_file(folder / kUnusableName, 1 << 20), (folder / kUnusableName).string());
    info.reason = fmt::format("marked unusable by {}: {}", mark.detector, mark.reason);
    info.proven_damaged = mark.proves_damage();
  } catch (const Error&) {
  }
  return info;
}

}  // namespace

void check_plain_file(const fs::path& folder, const std::string& relative, int64_t bytes) {
  if (const std::string fault = link_fault(folder, relative); !fault.empty()) refuse(fault);
  std::error_code code;
  const fs::file_type type = fs::symlink_status(folder / relative, code).type();
  if (type == fs::file_type::not_found) refuse(fmt::format("{} is missing", relative));
  if (type == fs::file_type::none) refuse(fmt::format("{} cannot be looked at: {}", relative, code.message()));
  if (type != fs::file_type::regular) refuse(fmt::format("{} is no regular file (links are refused)", relative));
  if (::faccessat(AT_FDCWD, (folder / relative).c_str(), R_OK, AT_EACCESS) != 0)
    refuse(fmt::format("{} cannot be read: {}", relative, std::generic_category().message(errno)));
  const int64_t actual = regular_file_bytes(folder / relative);
  if (actual != bytes) refuse(fmt::format("{} has {} bytes, {} expected", relative, actual, bytes));
}

std::string_view name(CheckpointState state) {
  switch (state) {
    case CheckpointState::usable:
      return "usable";
    case CheckpointState::unusable:
      return "unusable";
    case CheckpointState::incomplete:
      return "incomplete";
    case CheckpointState::damaged:
      return "damaged";
  }
  return "?";
}

CheckpointInfo inspect_folder(const fs::path& folder, Manifest* manifest) {
  return judge(folder, [&folder, manifest](const Committed& committed) {
    Manifest m = read_checked_manifest(folder, committed);
    if (manifest) *manifest = std::move(m);
  });
}

CheckpointInfo glance_at_folder(const fs::path& folder) {
  return judge(folder, [&folder](const Committed& committed) {
    if (!sizes_agree(folder, committed)) read_checked_manifest(folder, committed);
  });
}

namespace {

// What is behind a link belongs to somebody else: a mark, a replacement or a removal here must not reach it.
CheckpointInfo of_link(const fs::path& folder) {
  CheckpointInfo info;
  info.folder = folder;
  info.step = step_of_name(folder.filename().string()).value_or(-1);
  info.state = CheckpointState::damaged;
  info.unreadable = true;
  std::error_code code;
  const fs::path target = fs::read_symlink(folder, code);
  if (!code && fs::status(folder, code).type() == fs::file_type::not_found)
    info.reason = fmt::format("it is a link to {}, which does not exist; links are refused: put the folder itself here",
                              target.string());
  else
    info.reason = "it is a link, and links are refused: put the folder itself here, or name where it lies";
  return info;
}

}  // namespace

std::vector<CheckpointInfo> scan_checkpoints(const fs::path& root, Look look) {
  std::vector<CheckpointInfo> all;
  for (const std::string& entry : readable_names_in(root)) {
    if (!step_of_name(entry)) continue;
    const fs::path folder = root / entry;
    std::error_code code;
    const fs::file_status status = fs::symlink_status(folder, code);
    if (status.type() == fs::file_type::none)  // of none of the names in `root` can be told what it is
      throw file_error(ErrorKind::environment, "look at", folder, code.value());
    if (fs::is_symlink(status))
      all.push_back(of_link(folder));
    else
      all.push_back(look == Look::glance ? glance_at_folder(folder) : inspect_folder(folder));
  }
  std::sort(all.begin(), all.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
    const std::string x = a.folder.filename().string(), y = b.folder.filename().string();
    const int64_t s = *step_of_name(x), t = *step_of_name(y);
    return s != t ? s > t : x > y;  // "step-..." before ".superseded-..."
  });
  return all;
}

bool may_not_be_read(const CheckpointInfo& info) { return info.unreadable && info.state == CheckpointState::damaged; }

bool is_superseded(const CheckpointInfo& info) {
  return info.folder.filename().string().starts_with(kSupersededPrefix);
}

std::string steps_text(const std::vector<CheckpointInfo>& checkpoints) {
  std::string text;
  for (const CheckpointInfo& info : checkpoints)
    text += fmt::format("{} {} ({})", text.empty() ? "" : ",", info.step, name(info.state));
  if (text.empty()) return "none at all";
  return (checkpoints.size() == 1 ? "step" : "steps") + text;
}

std::string what_is_there_instead(const fs::path& missing) {
  const fs::path parent = fs::absolute(missing).lexically_normal().parent_path();
  std::error_code code;
  if (!fs::is_directory(parent, code)) return fmt::format("{} is no folder either", parent.string());
  const fs::path root = checkpoint_root_of(parent);
  const std::vector<CheckpointInfo> all = scan_checkpoints(root);
  std::string text = fmt::format("{} has {}", root.string(), all.empty() ? "no checkpoint" : steps_text(all));
  for (const CheckpointInfo& info : all)
    if (info.state == CheckpointState::usable)
      return text + fmt::format("; the newest usable one is {}", info.folder.string());
  return text;
}

bool is_checkpoint_folder(const fs::path& path) {
  return is_there(path / kManifestName) || is_there(path / kCommittedName) || is_there(path / kUnusableName);
}

fs::path checkpoint_root_of(const fs::path& path) {
  if (const std::string why = why_no_folder(path); !why.empty())
    fail(ErrorKind::checkpoint,
         fmt::format("{} {}; give a run directory, its checkpoints folder, or one checkpoint (step-...)", path.string(),
                     why));
  if (::access(path.c_str(), X_OK) != 0) throw file_error(ErrorKind::environment, "look into", path, errno);
  const fs::path inside = path / "checkpoints";
  const std::string why = why_no_folder(inside);
  if (why.empty()) return inside;
  if (is_there(inside))
    fail(ErrorKind::checkpoint, fmt::format("{} {}; a run's checkpoints lie in a folder of that name: put it back, or "
                                            "name the folder that they are in",
                                            inside.string(), why));
  if (!is_checkpoint_folder(path)) return path;
  const fs::path parent = fs::absolute(path).lexically_normal();
  return (parent.has_filename() ? parent : parent.parent_path()).parent_path();
}

}  // namespace trainctl
