// kernels/common/threads.cpp -- asks OpenMP, where the build has it.
#include "kernels/common/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace trainctl::kernels {

int kernel_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void set_kernel_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

}  // namespace trainctl::kernels
