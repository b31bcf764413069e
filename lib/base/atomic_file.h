// lib/base/atomic_file.h -- whole files or no files: write to a temporary name, fsync, rename, fsync the folder.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace trainctl {

// Replaces `path` with `content` so that a reader, or a crash at any moment, sees the old file or the new one whole.
// Throws Error{environment} naming the path and the cause (no space, no permission).
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same of a content in pieces, one after the other.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces);

// What a link leads to, link after link, also when nothing is there yet; the path itself when it is none. To replace a
// file that somebody has put on another disk, and not the link. Throws Error{input}: a circle of links.
std::filesystem::path behind_links(std::filesystem::path path);

std::string read_file(const std::filesystem::path& path);  // throws Error{input}
// Makes what is missing of `path`, each folder's entry synced: a power cut does not take it back. Throws
// Error{environment}, or Error{input} where the path is at fault: a file is in its way, a name is too long.
void make_directories(const std::filesystem::path& path);
void sync_directory(const std::filesystem::path& path);  // fsync of the directory itself

// Appends one line (a '\n' is added) with a single write(2), so that concurrent readers never see half a line.
class LineWriter {
 public:
  // Called when the disk is full; true: there is room again, and what is left of the line is written.
  using MakeRoom = std::function<bool()>;
  explicit LineWriter(const std::filesystem::path& path, bool truncate = false, MakeRoom make_room = {});
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  void line(std::string_view text);

 private:
  int fd_ = -1;
  std::filesystem::path path_;
  MakeRoom make_room_;
};

// An advisory lock (flock) on a file; freed by the kernel when the process dies, so a crash leaves no stale lock.
class FileLock {
 public:
  FileLock() = default;
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  // True when taken. False: another process holds it; `holder` then has its note ("pid 123 on host, since ...").
  bool try_acquire(const std::filesystem::path& path, std::string_view note, std::string* holder);
  // The same for a lock that any number of processes may share, while none can acquire it. The note is the newest's.
  bool try_share(const std::filesystem::path& path, std::string_view note);

 private:
  bool take(const std::filesystem::path& path, int mode, std::string_view note, std::string* holder);

  int fd_ = -1;
};

}  // namespace trainctl
