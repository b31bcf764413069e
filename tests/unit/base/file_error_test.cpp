// tests/unit/base/file_error_test.cpp -- file system errors: kind, path, cause, and what to do.
#include "base/file_error.h"

#include <cerrno>

#include "base/atomic_file.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

template <class F>
Error thrown_by(F f) {
  try {
    f();
  } catch (const fs::filesystem_error& e) {
    return file_error(e);
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  std::abort();
}

}  // namespace

TEST_CASE("a call of std::filesystem that throws becomes an error with operation, path, cause and remedy",
          "[base][file]") {
  const std::string name(300, 'n');
  const Error long_name = thrown_by([&] { static_cast<void>(fs::exists(fs::path("/tmp") / name)); });
  CHECK(long_name.kind() == ErrorKind::input);
  CHECK_THAT(long_name.what(), Contains("/tmp/" + name) && Contains("status") && Contains("File name too long") &&
                                   Contains("255 bytes") && !Contains("filesystem error"));
  const Error absent = thrown_by([] { fs::copy_file("/proc/none/a", "/proc/none/b"); });
  CHECK(absent.kind() == ErrorKind::environment);
  CHECK_THAT(absent.what(), Contains("/proc/none/a and /proc/none/b") && Contains("No such file"));
}

TEST_CASE(
    "the name that was given is bad input whatever was done with it; a place that takes nothing is the "
    "environment",
    "[base][file]") {
  for (const int code : {ENAMETOOLONG, ELOOP, ENOTDIR}) {
    CHECK(file_error(ErrorKind::environment, "write", "x", code).kind() == ErrorKind::input);
    CHECK(file_error(ErrorKind::checkpoint, "read", "x", code).kind() == ErrorKind::checkpoint);
  }
  for (const int code : {EACCES, EROFS, ENOSPC, ENOENT, EIO})
    CHECK(file_error(ErrorKind::environment, "write", "x", code).kind() == ErrorKind::environment);
  CHECK(thrown_by([] { make_directories("/proc/none"); }).kind() == ErrorKind::environment);
  CHECK(thrown_by([] { make_directories("/tmp/" + std::string(300, 'n')); }).kind() == ErrorKind::input);
}

TEST_CASE("a folder is told from what is none, and from what cannot be told", "[base][file]") {
  CHECK(is_folder("/proc"));
  CHECK_FALSE(is_folder("/proc/none"));
  CHECK_FALSE(is_folder("/proc/uptime"));
  CHECK_FALSE(is_folder("/proc/uptime/below"));
  CHECK(thrown_by([] { is_folder(std::string(300, 'n')); }).kind() == ErrorKind::input);
}

}  // namespace trainctl::testing
