# cudaep_use_precompiled_headers(TARGET PROVIDER HEADER...)
#
# The HEADERs are parsed once, for PROVIDER, and reused by TARGET, whose compiler settings must be PROVIDER's. Off by
# default: a compiler cache finds nothing of such a build again, what includes too little compiles in it, and warnings are
# no errors where code is optimised, since GCC no longer knows which headers are the system's.
option(CUDAEP_PRECOMPILED_HEADERS "parse common headers once: a third less time where there is no compiler cache" OFF)

set(CUDAEP_COMMON_HEADERS <algorithm> <array> <atomic> <bit> <chrono> <cmath> <condition_variable> <functional> <map>
  <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)

function(cudaep_use_precompiled_headers target provider)
  if(NOT CUDAEP_PRECOMPILED_HEADERS)
    return()
  endif()
  if(target STREQUAL provider)
    list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>")
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${provider})
  endif()
endfunction()
