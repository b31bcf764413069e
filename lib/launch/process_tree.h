// lib/launch/process_tree.h -- this process's descendants as /proc shows them: find ranks, leave none behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace trainctl {

struct ProcessInfo {
  pid_t pid = 0, parent = 0;
  char state = '?';   // R running, S sleeping, D in the kernel, T stopped, Z dead but not reaped
  int64_t rank = -1;  // from the environment that mpirun or srun gave it; -1: no rank
};

// Every descendant of this process (of any depth), in no order. Ranks of other hosts are not seen.
std::vector<ProcessInfo> descendants();

// From now on a descendant whose parent dies becomes a child of this process, so that descendants() keeps seeing it.
void adopt_orphans();

// Sends `signal` to every descendant; SIGKILL also reaches stopped ones. Returns how many there were (without zombies).
int signal_descendants(int signal);

// SIGKILL to all descendants until none is left or `limit_s` has passed; reaps them. True: none is left.
bool kill_descendants(double limit_s);

}  // namespace trainctl
