// tests/fault/checkpoint/calls.h -- the system calls by which a save can change or look at a file system.
#pragma once

#include <sys/syscall.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace trainctl::testing {

struct SystemCall {
  std::string_view name;
  long number;
};

inline constexpr std::array<SystemCall, 25> kFileCalls = {{
    {"openat", SYS_openat},
    {"mkdir", SYS_mkdir},
    {"fallocate", SYS_fallocate},
    {"pwrite64", SYS_pwrite64},
    {"pwritev", SYS_pwritev},
    {"write", SYS_write},
    {"ftruncate", SYS_ftruncate},
    {"fdatasync", SYS_fdatasync},
    {"fsync", SYS_fsync},
    {"rename", SYS_rename},
    {"renameat2", SYS_renameat2},
    {"unlink", SYS_unlink},
    {"unlinkat", SYS_unlinkat},
    {"rmdir", SYS_rmdir},
    {"close", SYS_close},
    {"fstat", SYS_fstat},
    {"newfstatat", SYS_newfstatat},
    {"statfs", SYS_statfs},
    {"getdents64", SYS_getdents64},
    {"read", SYS_read},
    {"pread64", SYS_pread64},
    {"fcntl", SYS_fcntl},
    {"io_uring_setup", SYS_io_uring_setup},
    {"io_uring_register", SYS_io_uring_register},
    {"io_uring_enter", SYS_io_uring_enter},
}};

// A writer thread numbers its calls from here on: before anything else it makes this many empty ones of each kind, and
// the main thread never comes so far. So "the N-th call of a thread" (strace counts by thread) names one call.
inline constexpr int64_t kWriterThreadFirstCall = 500;

// Nor may a thread of a later save make the call that is meant: where that is the main thread's it begins as a writer
// does, else it never comes so far.
inline constexpr int64_t later_thread_first_call(int64_t meant) {
  return meant <= kWriterThreadFirstCall ? kWriterThreadFirstCall : 0;
}

}  // namespace trainctl::testing
