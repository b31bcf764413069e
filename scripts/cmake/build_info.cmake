# Writes OUTPUT, a C++ file with version() and build_id(), when its content changes. Runs at every build:
#   cmake -DSOURCE=<source root> -DOUTPUT=<file> -DVERSION=<version> -P build_info.cmake

# A digest of all that goes into the programs.
function(digest_sources result)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/apps/* ${SOURCE}/kernels/* ${SOURCE}/lib/*
       ${SOURCE}/scripts/cmake/*)
  list(SORT files)
  set(all "")
  foreach(file CMakeLists.txt ${files})
    if(file MATCHES "\\.(cpp|h|cu|cuh|cmake)$|CMakeLists.txt$" AND EXISTS ${SOURCE}/${file})
      file(SHA256 ${SOURCE}/${file} one)
      string(APPEND all "${file} ${one}\n")
    endif()
  endforeach()
  string(SHA256 all "${all}")
  set(${result} ${all} PARENT_SCOPE)
endfunction()

set(id "")
find_program(GIT git)
if(GIT)
  # Only when the sources are the top of a work tree: an unpacked archive inside another project is not that project.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  file(REAL_PATH ${SOURCE} real_source)
  if(status EQUAL 0 AND top STREQUAL real_source)
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 --verify HEAD OUTPUT_VARIABLE commit ERROR_QUIET
                    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE has_commit)
    execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain -- apps kernels lib scripts/cmake CMakeLists.txt
                    OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE has_status)
    if(has_commit EQUAL 0 AND has_status EQUAL 0)
      set(id ${commit})
      if(NOT changes STREQUAL "")
        digest_sources(digest)
        string(SUBSTRING ${digest} 0 8 digest)
        string(APPEND id "-dirty-${digest}")
      endif()
    endif()
  endif()
endif()
if(id STREQUAL "")
  digest_sources(digest)
  string(SUBSTRING ${digest} 0 12 digest)
  set(id "src-${digest}")
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Generated at every build by scripts/cmake/build_info.cmake.
#include "base/build_info.h"

namespace trainctl {

std::string_view version() { return "@VERSION@"; }
std::string_view build_id() { return "@id@"; }

}  // namespace trainctl
]])
