// kernels/common/threads.h -- how many threads a kernel called now would use.
#pragma once

namespace trainctl::kernels {

int kernel_threads();  // 1 in builds without OpenMP
// For kernels called by this thread from now on; >= 1. Each rank thread of a process has its own number.
void set_kernel_threads(int threads);

}  // namespace trainctl::kernels
