#!/usr/bin/env bash
# tests/mpi/mpi_owner_test.sh MPI_OWNER -- start, end and abort of MPI by the communication thread, with real processes.
set -uo pipefail
program=$1
run=scripts/mpi_run
faults=0

# expect NAME WANTED_STATUS WANTED_TEXT COMMAND...
expect() {
  local name=$1 wanted=$2 text=$3
  shift 3
  local start=$SECONDS output status
  output=$("$@" 2>&1)
  status=$?
  if [[ $status -ne $wanted || $output != *"$text"* || $((SECONDS - start)) -gt 10 ]]; then
    echo "FAILED $name: status $status (wanted $wanted), $((SECONDS - start)) s, output:"
    echo "$output"
    faults=$((faults + 1))
  else
    echo "ok $name"
  fi
}

expect "three ranks start, sum and end" 0 "3 ranks sum to 6" "$run" 3 "$program" sum
expect "a process without mpirun is a world of one" 0 "1 ranks sum to 1" "$program" sum
expect "an abort from any thread ends the job with its code" 5 "" "$run" 3 "$program" abort 5
expect "a rank that leaves ends the job with its code" 9 "" "$run" 3 "$program" leave
expect "a wrong call of mpi_run says how it is used" 2 "usage:" "$run" three "$program"
exit $((faults > 0))
