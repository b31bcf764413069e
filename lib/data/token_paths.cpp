// lib/data/token_paths.cpp -- the candidates, in order, and an error that shows them all.
#include "data/token_paths.h"

#include <fmt/format.h>

#include <system_error>
#include <vector>

#include "base/error.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

TokenPaths pair_of(const std::string& prefix) { return {prefix + ".bin", prefix + ".idx"}; }

bool has_token_extension(const fs::path& path) {
  return path.has_stem() && (path.extension() == ".bin" || path.extension() == ".idx");
}

std::string without_extension(const fs::path& path) {
  const std::string text = path.string();
  return text.substr(0, text.size() - 4);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool both_exist(const TokenPaths& pair) { return is_file(pair.bin) && is_file(pair.idx); }

std::string state_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return fs::is_symlink(fs::symlink_status(path, error)) ? "a link to nothing" : "missing";
  }
  if (status.type() == fs::file_type::regular) return "present";
  if (status.type() == fs::file_type::directory) return "a folder, not a file";
  if (status.type() == fs::file_type::none) return error.message();
  return "not a regular file";
}

}  // namespace

TokenPaths find_token_files(const fs::path& given) {
  if (given.empty()) {
    fail(ErrorKind::input, "the path of the token files is empty; give PREFIX, PREFIX.bin or PREFIX.idx");
  }
  std::vector<TokenPaths> tried;
  const auto try_path = [&tried](const fs::path& path) {
    tried.push_back(pair_of(path.string()));
    if (both_exist(tried.back())) return true;
    if (!has_token_extension(path)) return false;
    tried.push_back(pair_of(without_extension(path)));
    return both_exist(tried.back());
  };
  if (try_path(given)) return tried.back();

  std::error_code error;
  for (const fs::path& link : {given, fs::path(given.string() + ".bin"), fs::path(given.string() + ".idx")}) {
    if (!fs::is_symlink(fs::symlink_status(link, error))) continue;
    const fs::path target = fs::canonical(link, error);
    if (!error && try_path(target)) return tried.back();
  }

  std::string looked;
  for (const TokenPaths& pair : tried) {
    looked += fmt::format("\n  {} ({})\n  {} ({})", pair.bin.string(), state_of(pair.bin), pair.idx.string(),
                          state_of(pair.idx));
  }
  fail(ErrorKind::input,
       fmt::format("{}: no pair of token files here (PREFIX.bin and PREFIX.idx are both needed). Looked for:{}\n"
                   "Make them with `trainctl data prepare`, or correct the path.",
                   given.string(), looked));
}

TokenPaths token_files_to_write(const fs::path& given) {
  const std::string prefix = has_token_extension(given) ? without_extension(given) : given.string();
  const fs::path name = fs::path(prefix).filename();
  if (name.empty() || name == "." || name == "..") {
    fail(ErrorKind::usage, fmt::format("\"{}\" is no name for token files; give a prefix such as {}", given.string(),
                                       (given / "corpus").string()));
  }
  return pair_of(prefix);
}

}  // namespace trainctl
