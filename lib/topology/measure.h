// lib/topology/measure.h -- what this machine's CPU cores really do: FLOP rate, memory bandwidth, copy rate.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl {

enum class FlopType : uint8_t { f32, bf16 };

struct PeakFlops {
  double flops_per_s = 0;   // all threads together; a fused multiply-add counts as two
  std::string instruction;  // which loop ran: "avx512 fma", "avx512 bf16 dot product", "avx2 fma", "portable"
  int threads = 0;
};

// Runs independent multiply-add chains held in registers on `threads` threads at once (0: one per usable processor)
// with the widest vectors the processor has, in windows of about 10 ms until `seconds` have passed, and returns the
// best window. The clock is each thread's own processor time, so other work on the machine does not lower the result;
// more threads than processors do not raise it. bf16 (products of bf16, sums in f32) falls back to the f32 loop on
// processors without bf16 vector instructions; matrix (AMX) units are not used.
// Every chain's result is compared with the exact value. Throws Error{internal} when it differs.
PeakFlops measure_peak_flops(int threads, FlopType type, double seconds = 0.2);

// a[i] = b[i] + s * c[i] over arrays of `bytes_per_thread` each, on `threads` threads at once; bytes read and written
// per second of wall time (24 per element of 8 bytes; what the cache fetches on a write is not counted). Best pass
// within `seconds`. Take arrays well beyond the last cache.
double measure_memory_bandwidth(int threads, int64_t bytes_per_thread, double seconds = 0.2);

// One thread copying a buffer of `bytes`: bytes copied per second (each is read once and written once).
double measure_copy_rate(int64_t bytes, double seconds = 0.1);

int usable_processors();  // logical ones that this process may run on: its affinity mask, and the CPU quota of its
                          // control group

}  // namespace trainctl
