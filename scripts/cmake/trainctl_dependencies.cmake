# Everything from outside, found once. All come from Debian's packages (scripts/dev setup installs them).
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
if(TRAINCTL_URING)
  pkg_check_modules(LIBURING IMPORTED_TARGET liburing)  # without it checkpoints are written by threads
endif()
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# Found by hand: Debian's dnnl-config.cmake demands OpenCL's development files, which the CPU engine does not use.
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
find_package(MPI REQUIRED COMPONENTS C)
if(TRAINCTL_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(CATCH2_INCLUDE_DIR catch2/catch.hpp REQUIRED)
