# cudaep_unit_test(NAME SOURCES ... [SIM_SOURCES ...] [KERNELS ...] LAYERS ...)
#
# A GoogleTest executable over the named layers, known to ctest test by test. KERNELS are `.cu` files of the test;
# SIM_SOURCES drive the simulated device (its faults, counters and modes) and are built for it alone.
find_package(GTest REQUIRED)
include(GoogleTest)

function(cudaep_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SIM_SOURCES;KERNELS;LAYERS" ${ARGN})
  if(NOT CUDAEP_DEVICE STREQUAL "cuda" AND ARG_KERNELS)
    set_source_files_properties(${ARG_KERNELS} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${CUDAEP_HOST_KERNEL_OPTIONS}"
                                SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(CUDAEP_DEVICE STREQUAL "sim")
    list(APPEND ARG_SOURCES ${ARG_SIM_SOURCES})
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_KERNELS})
  list(TRANSFORM ARG_LAYERS PREPEND cudaep_)
  target_link_libraries(${name} PRIVATE ${ARG_LAYERS} GTest::gtest_main)
  cudaep_use_precompiled_headers(${name} test_core ${CUDAEP_COMMON_HEADERS} <gtest/gtest.h>)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60)
endfunction()
