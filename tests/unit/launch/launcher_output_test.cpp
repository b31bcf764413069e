// tests/unit/launch/launcher_output_test.cpp -- messages of Open MPI 4.1 and Slurm 23, as they were printed.
#include "launch/launcher_output.h"

#include <sstream>

#include "support/catch.h"

namespace trainctl {
namespace {

LauncherOutput fed(const std::string& launcher, const std::string& text) {
  LauncherOutput output(launcher);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) output.add(line);
  return output;
}

}  // namespace

TEST_CASE("a tagged line belongs to its rank, everything else to the launcher", "[launch]") {
  CHECK(untag("[1,12]<stderr>:a: b", "mpirun").rank == 12);
  CHECK(untag("[1,12]<stderr>:a: b", "mpirun").text == "a: b");
  CHECK(untag("[1,0]<stdout>:", "mpirun").text.empty());
  CHECK(untag(" 3: text", "srun").rank == 3);
  CHECK(untag("12: a: b", "srun").text == "a: b");
  for (const char* own :
       {"[vm:123] *** Process received signal ***", "[1,x]<stderr>:a", "[1", "", "]<stderr>:", "plain"})
    CHECK(untag(own, "mpirun").rank == -1);
  CHECK(untag("srun: error: vm: task 1: Killed", "srun").rank == -1);
  CHECK(untag("3: text", "threads").rank == -1);
}

TEST_CASE("mpirun's report of a signal gives rank, host and signal", "[launch]") {
  const LauncherVerdict v = fed("mpirun",
                                "[1,0]<stderr>:hello\n"
                                "--------------------------------------------------------------------------\n"
                                "Primary job  terminated normally, but 1 process returned\n"
                                "a non-zero exit code. Per user-direction, the job has been aborted.\n"
                                "--------------------------------------------------------------------------\n"
                                "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 "
                                "(Segmentation fault).\n")
                                .verdict();
  CHECK(v.rank == 1);
  CHECK(v.host == "vm");
  CHECK(v.signal == 11);
}

TEST_CASE("mpirun's report of an exit code gives rank and code", "[launch]") {
  const LauncherVerdict v = fed("mpirun",
                                "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
                                "the job to be terminated. The first process to do so was:\n\n"
                                "  Process name: [[18173,1],3]\n"
                                "  Exit code:    41\n")
                                .verdict();
  CHECK(v.rank == 3);
  CHECK(v.exit_code == 41);
  CHECK_FALSE(v.signal);
}

TEST_CASE("an abort is named before the deaths that it causes", "[launch]") {
  const LauncherVerdict v = fed("mpirun",
                                "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 4.\n\n"
                                "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n"
                                "mpirun noticed that process rank 0 with PID 9 on node vm exited on signal 15 "
                                "(Terminated).\n")
                                .verdict();
  CHECK(v.rank == 2);
  CHECK(v.exit_code == 4);
}

TEST_CASE("a launcher that could not start the ranks is quoted", "[launch]") {
  CHECK_THAT(
      fed("mpirun", "There are not enough slots available in the system to satisfy the 9\n").verdict().launcher_problem,
      Catch::Contains("not enough slots"));
  CHECK_THAT(fed("mpirun", "mpirun was unable to find the specified executable file\n").verdict().launcher_problem,
             Catch::Contains("unable to find"));
  CHECK_THAT(fed("srun", "srun: error: Unable to allocate resources: Invalid account\n").verdict().launcher_problem,
             Catch::Contains("Invalid account"));
  CHECK(fed("mpirun", "all well\n").verdict().empty());
  CHECK(fed("threads", "There are not enough slots\n").verdict().empty());
}

TEST_CASE("srun's report of a task gives host, rank and how it ended", "[launch]") {
  const LauncherVerdict killed = fed("srun", "srun: error: n002: task 5: Killed\n").verdict();
  CHECK(killed.rank == 5);
  CHECK(killed.host == "n002");
  CHECK(killed.signal == 9);
  const LauncherVerdict exited = fed("srun", "srun: error: n001: tasks 2-3: Exited with exit code 4\n").verdict();
  CHECK(exited.rank == 2);
  CHECK(exited.exit_code == 4);
}

TEST_CASE("only the last lines of a rank are kept", "[launch]") {
  LauncherOutput output("mpirun");
  for (int i = 0; i < 1000; ++i) output.add("[1,1]<stderr>:line " + std::to_string(i));
  CHECK(output.last_lines(1).size() <= 100);
  CHECK(output.last_lines(1).back() == "line 999");
  CHECK(output.last_lines(7).empty());
}

}  // namespace trainctl
