# The target trainctl_build_info: base/build_info.h, with an id made anew at every build.
set(generated ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
add_custom_target(trainctl_build_info_file
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${generated} -DVERSION=${PROJECT_VERSION}
          -P ${CMAKE_SOURCE_DIR}/scripts/cmake/build_info.cmake
  BYPRODUCTS ${generated} COMMENT "Build id" VERBATIM)
add_library(trainctl_build_info STATIC ${generated})
add_dependencies(trainctl_build_info trainctl_build_info_file)
target_include_directories(trainctl_build_info PUBLIC ${CMAKE_SOURCE_DIR}/lib)
target_link_libraries(trainctl_build_info PRIVATE trainctl_options)
