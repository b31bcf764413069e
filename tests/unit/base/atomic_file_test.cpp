// tests/unit/base/atomic_file_test.cpp -- whole files, single lines, locks.
#include "base/atomic_file.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "support/catch.h"

using namespace trainctl;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("trainctl_test_" + random_hex(12));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("a file is replaced whole and nothing is left beside it", "[base][file]") {
  const Folder f;
  write_file_atomically(f.path / "a", "one");
  write_file_atomically(f.path / "a", std::string(1 << 20, 'x'));
  CHECK(read_file(f.path / "a") == std::string(1 << 20, 'x'));
  CHECK(entries(f.path) == 1);
}

TEST_CASE("a reader never sees half a file while it is being replaced", "[base][file]") {
  const Folder f;
  const std::string one(100000, '1'), two(200000, '2');
  write_file_atomically(f.path / "a", one);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write_file_atomically(f.path / "a", i % 2 ? one : two);
  });
  bool whole = true;
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(f.path / "a");
    whole = whole && (seen == one || seen == two);
  }
  writer.join();
  CHECK(whole);
}

TEST_CASE("whoever sees a new file may move its folder at once", "[base][file]") {
  const Folder folder;
  const fs::path home = folder.path / "here", moved = folder.path / "there";
  for (int i = 0; i < 300; ++i) {
    fs::create_directory(home);
    std::thread mover([&] {
      while (::access((home / "receipt").c_str(), F_OK) != 0) {
      }
      fs::rename(home, moved);
    });
    std::string fault;
    try {
      write_file_atomically(home / "receipt", "whole");
    } catch (const Error& error) {
      fault = error.what();
    }
    mover.join();
    REQUIRE(fault == "");
    REQUIRE(read_file(moved / "receipt") == "whole");
    fs::remove_all(moved);
  }
}

TEST_CASE("a write that cannot be done names the path, the cause, and leaves nothing", "[base][file]") {
  const Folder f;
  CHECK_THROWS_WITH(write_file_atomically(f.path / "no" / "a", "x"),
                    Catch::Contains("no/a") && Catch::Contains("No such file or directory"));
  fs::create_directories(f.path / "folder" / "inside");
  CHECK_THROWS_AS(write_file_atomically(f.path / "folder", "x"), Error);  // rename over a folder
  CHECK(entries(f.path) == 1);
  CHECK_THROWS_WITH(read_file(f.path / "absent"), Catch::Contains("cannot read") && Catch::Contains("absent"));
  CHECK_THROWS_WITH(read_file(f.path), Catch::Contains("Is a directory"));
  write_file_atomically(f.path / "file", "x");
  CHECK_THROWS_AS(make_directories(f.path / "file" / "sub"), Error);
}

TEST_CASE("a folder that nobody can make is refused with the cause", "[base][file]") {
  for (const char* path : {"/proc/trainctl", "/proc/trainctl/deeper/still"})
    CHECK_THROWS_WITH(make_directories(path), Catch::Contains("/proc/trainctl") && Catch::Contains("No such file"));
}

TEST_CASE("missing folders are made, whatever the spelling of the path, and existing ones are left", "[base][file]") {
  const Folder f;
  make_directories(f.path / "a" / "b" / "c");
  make_directories(f.path / "a" / "b" / "d" / "");
  make_directories(f.path / "a" / "b" / "d");
  make_directories(f.path);
  CHECK(entries(f.path / "a" / "b") == 2);
  fs::create_directory_symlink(f.path / "a", f.path / "link");
  make_directories(f.path / "link" / "b" / "e");
  CHECK(entries(f.path / "a" / "b") == 3);
  write_file_atomically(f.path / "file", "x");
  CHECK_THROWS_WITH(make_directories(f.path / "file"), Catch::Contains("File exists"));
}

TEST_CASE("lines of several writers are never mixed", "[base][file]") {
  const Folder f;
  const auto write = [&](char c) {
    LineWriter writer(f.path / "lines");
    for (int i = 0; i < 200; ++i) writer.line(std::string(500, c));
  };
  std::thread a(write, 'a'), b(write, 'b');
  a.join();
  b.join();
  const std::string text = read_file(f.path / "lines");
  CHECK(text.size() == 400u * 501u);
  size_t good = 0;
  for (size_t at = 0; at + 501 <= text.size(); at += 501)
    if (text[at + 500] == '\n' && text.substr(at, 500) == std::string(500, text[at])) ++good;
  CHECK(good == 400);
}

TEST_CASE("a lock is held once, names its holder, and is free again after its holder died", "[base][file]") {
  const Folder f;
  FileLock first;
  REQUIRE(first.try_acquire(f.path / "lock", "pid 1 on here", nullptr));
  FileLock second;
  std::string holder;
  CHECK_FALSE(second.try_acquire(f.path / "lock", "pid 2", &holder));
  CHECK(holder == "pid 1 on here");
  { const FileLock moved = std::move(first); }
  CHECK(second.try_acquire(f.path / "lock", "pid 2", nullptr));

  const pid_t child = fork();
  if (child == 0) {  // dies with the lock in hand
    FileLock in_child;
    _exit(in_child.try_acquire(f.path / "other", "child", nullptr) ? 7 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WEXITSTATUS(status) == 7);
  FileLock after;
  CHECK(after.try_acquire(f.path / "other", "parent", nullptr));
}

TEST_CASE("a shared lock has any number of holders, and none beside one that has it alone", "[base][file]") {
  const Folder f;
  FileLock a, b, alone;
  REQUIRE(a.try_share(f.path / "lock", "pid 1"));
  REQUIRE(b.try_share(f.path / "lock", "pid 2"));
  std::string holder;
  CHECK_FALSE(alone.try_acquire(f.path / "lock", "pid 3", &holder));
  CHECK(holder == "pid 2");
  a = FileLock();
  CHECK_FALSE(alone.try_acquire(f.path / "lock", "pid 3", nullptr));
  b = FileLock();
  REQUIRE(alone.try_acquire(f.path / "lock", "pid 3", nullptr));
  CHECK_FALSE(a.try_share(f.path / "lock", "pid 1"));
}

TEST_CASE("a rank's log has its number, the level and the text on every line", "[base][log]") {
  const Folder f;
  const Logger log = make_file_logger(f.path / "rank.log", 3);
  log->info("step {}", 7);
  log->error("lost");
  const std::string text = read_file(f.path / "rank.log");  // flushed per line
  CHECK_THAT(text, Catch::Contains("[rank 3] info step 7\n") && Catch::Contains("[rank 3] error lost\n"));
  CHECK_THROWS_AS(make_file_logger(f.path / "rank.log" / "x", 0), Error);
}
