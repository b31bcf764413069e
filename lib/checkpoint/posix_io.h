// lib/checkpoint/posix_io.h -- the file system calls of the save and load paths: whole transfers, no silent shortcuts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

// An open file; closed by the destructor. Every failing call throws Error{environment}: action, path, cause.
class FileHandle {
 public:
  // O_EXCL: an existing file is an error.
  static FileHandle create_exclusive(const std::filesystem::path& path);
  // Regular files only, links refused: Error{checkpoint} otherwise or when the file is missing.
  static FileHandle open_for_reading(const std::filesystem::path& path);
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle();

  void reserve(int64_t bytes);  // fallocate: a full disk shows here. File systems without it are passed over.
  // Loops until every byte is accepted; EINTR and short writes go on, no progress twice is a failure.
  void write_at(const void* data, int64_t bytes, int64_t offset);
  void read_at(void* data, int64_t bytes, int64_t offset) const;  // Error{checkpoint} when the file ends before
  void sync_data();  // fdatasync; a failure must never be retried on the same file (pages are dropped as clean)
  int64_t size() const;
  void truncate(int64_t bytes);
  // O_DIRECT on or off; false when the file system refuses it (it stays off).
  bool set_direct(bool on);
  bool direct() const { return direct_; }
  int fd() const { return fd_; }
  void close();  // reports what close(2) reports; the destructor does not
  const std::filesystem::path& path() const { return path_; }

 private:
  FileHandle(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  bool direct_ = false;
  std::filesystem::path path_;
};

// The content of a regular file of at most `limit` bytes. Throws Error{checkpoint} naming the file.
std::string read_small_file(const std::filesystem::path& path, int64_t limit);
void read_small_file(const std::filesystem::path& path, int64_t limit,
                     std::string& content);  // its memory is used again

// Replaces `path` with `content`, whole for every running reader. Not synced: for what need not outlive a power cut.
void put_small_file(const std::filesystem::path& path, std::string_view content);

// Size of a regular file; -1 when there is none, or it is a link or a folder.
int64_t regular_file_bytes(const std::filesystem::path& path);

// renameat2(RENAME_NOREPLACE); throws Error{environment} when `to` exists. File systems without the flag: checked
// rename.
void rename_to_new_name(const std::filesystem::path& from, const std::filesystem::path& to);

// Bytes this user may still write to the file system of `folder`.
int64_t free_bytes(const std::filesystem::path& folder);

// Removes a folder with everything in it; links are removed, not followed. False when something remains; `cause` then
// says why.
bool remove_tree(const std::filesystem::path& folder, std::string* cause = nullptr);

// Names in a folder, sorted; empty when there is no such folder, or it cannot be read: for cleaning up.
std::vector<std::string> names_in(const std::filesystem::path& folder);
// The same for judging what is there: what cannot be read is not told as empty. Throws file_error (environment).
std::vector<std::string> readable_names_in(const std::filesystem::path& folder);

// "data/x.safetensors": relative, no "..", no empty or "." part, only [A-Za-z0-9._-] and '/'.
bool is_safe_relative_path(std::string_view path);

}  // namespace trainctl
