# One way to declare a module, a program and a test; scripts/check_layering.py reads the DEPS written here.

add_library(trainctl_options INTERFACE)
target_compile_options(trainctl_options INTERFACE -ffp-contract=off -fno-math-errno)
if(TRAINCTL_WERROR)
  target_compile_options(trainctl_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
                         -Wold-style-cast -Werror)
endif()
if(TRAINCTL_FUZZ)
  target_compile_options(trainctl_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                         -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(trainctl_options INTERFACE -fsanitize=address,undefined)
elseif(TRAINCTL_SANITIZE STREQUAL "address+undefined")
  # GCC 12 takes what the address sanitizer adds to std::regex for uninitialised reads.
  target_compile_options(trainctl_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -g1 -Wno-maybe-uninitialized)
  target_link_options(trainctl_options INTERFACE -fsanitize=address,undefined)
elseif(TRAINCTL_SANITIZE STREQUAL "thread")
  target_compile_options(trainctl_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer -g1)
  target_link_options(trainctl_options INTERFACE -fsanitize=thread)
elseif(TRAINCTL_SANITIZE)
  message(FATAL_ERROR "TRAINCTL_SANITIZE is \"${TRAINCTL_SANITIZE}\"; use address+undefined, thread or nothing")
endif()

# trainctl_module(NAME SOURCES a.cpp ... DEPS other modules ... LIBS third parties ...)
# A module named x is the target trainctl_x; its headers are included as "x/header.h".
function(trainctl_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(M_SOURCES)
    add_library(trainctl_${name} STATIC ${M_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(trainctl_${name} PRIVATE trainctl_options)
  else()
    add_library(trainctl_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(trainctl_${name} ${scope} ${CMAKE_SOURCE_DIR}/lib)
  list(TRANSFORM M_DEPS PREPEND trainctl_)
  target_link_libraries(trainctl_${name} ${scope} ${M_DEPS} ${M_LIBS})
endfunction()

# trainctl_program(NAME SOURCES ... DEPS ... LIBS ...): the executable lands in build/bin.
function(trainctl_program name)
  cmake_parse_arguments(P "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${P_SOURCES})
  list(TRANSFORM P_DEPS PREPEND trainctl_)
  target_link_libraries(${name} PRIVATE trainctl_options ${P_DEPS} ${P_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# trainctl_test(NAME SOURCES ... DEPS ... [RANKS n] [TIMEOUT s] [LABELS ...]): a Catch2 executable and a CTest entry.
# RANKS n: run under mpirun with n processes; the sources then use tests/support/mpi_main.cpp.
function(trainctl_test name)
  cmake_parse_arguments(T "" "RANKS;TIMEOUT" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # tests compile often and compute little
  list(TRANSFORM T_DEPS PREPEND trainctl_)
  target_link_libraries(${name} PRIVATE trainctl_options ${T_DEPS} ${T_LIBS})
  if(T_RANKS)
    target_link_libraries(${name} PRIVATE trainctl_test_mpi_main)
    set(command ${CMAKE_SOURCE_DIR}/scripts/mpi_run ${T_RANKS} $<TARGET_FILE:${name}>)
    set(processors 2)
  else()
    target_link_libraries(${name} PRIVATE trainctl_test_main)
    set(command $<TARGET_FILE:${name}>)
    set(processors 1)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  if(TRAINCTL_SANITIZE)
    math(EXPR T_TIMEOUT "4 * ${T_TIMEOUT}")
  endif()
  add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} PROCESSORS ${processors} LABELS "${T_LABELS}"
    ENVIRONMENT "TRAINCTL_BIN=${CMAKE_BINARY_DIR}/bin;TRAINCTL_SOURCE=${CMAKE_SOURCE_DIR};OMP_NUM_THREADS=1")
endfunction()
