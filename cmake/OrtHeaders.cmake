# ONNX Runtime's C headers (1.27 or newer), as the interface library `cudaep_ort_headers`.
#
# Searched in this order: ORT_INCLUDE_DIR; an installed onnxruntime package; build/deps/onnxruntime-headers, which
# tools/fetch_ort_headers.sh fills from Debian's own package without installing it. Headers are never committed.
set(ORT_INCLUDE_DIR "" CACHE PATH "folder with ONNX Runtime's C headers, 1.27 or newer (empty: search)")
set(CUDAEP_ORT_MIN_API 27)

# Sets `result` to the folder at or below `root` that holds the headers, or to an empty string.
function(cudaep_find_ort_headers result root)
  set(${result} "" PARENT_SCOPE)
  foreach(suffix "" /include /onnxruntime /include/onnxruntime /include/onnxruntime/core/session)
    if(EXISTS ${root}${suffix}/onnxruntime_ep_c_api.h)
      set(${result} ${root}${suffix} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets `result` to the API number that the headers in `folder` declare.
function(cudaep_ort_api_version result folder)
  file(STRINGS ${folder}/onnxruntime_c_api.h line REGEX "^#define ORT_API_VERSION [0-9]+")
  string(REGEX REPLACE "[^0-9]" "" number "${line}")
  set(${result} "${number}" PARENT_SCOPE)
endfunction()

set(cudaep_fetched ${PROJECT_SOURCE_DIR}/build/deps/onnxruntime-headers)
if(ORT_INCLUDE_DIR)
  cudaep_find_ort_headers(cudaep_ort_dir ${ORT_INCLUDE_DIR})
  if(NOT cudaep_ort_dir)
    message(FATAL_ERROR "ORT_INCLUDE_DIR is ${ORT_INCLUDE_DIR}, but no onnxruntime_ep_c_api.h lies at or below it.")
  endif()
else()
  find_package(onnxruntime 1.${CUDAEP_ORT_MIN_API} CONFIG QUIET)
  if(onnxruntime_FOUND AND TARGET onnxruntime::onnxruntime)
    get_target_property(cudaep_ort_roots onnxruntime::onnxruntime INTERFACE_INCLUDE_DIRECTORIES)
    foreach(root IN LISTS cudaep_ort_roots)
      if(NOT cudaep_ort_dir)
        cudaep_find_ort_headers(cudaep_ort_dir ${root})
      endif()
    endforeach()
  endif()
  if(NOT cudaep_ort_dir)
    if(NOT EXISTS ${cudaep_fetched}/onnxruntime_ep_c_api.h)
      execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/fetch_ort_headers.sh ${cudaep_fetched})
    endif()
    cudaep_find_ort_headers(cudaep_ort_dir ${cudaep_fetched})
  endif()
endif()

if(NOT cudaep_ort_dir)
  message(FATAL_ERROR
    "ONNX Runtime's C headers (1.${CUDAEP_ORT_MIN_API} or newer) were not found and could not be fetched.\n"
    "Unpack an official release archive of ONNX Runtime and configure with -DORT_INCLUDE_DIR=<its include folder>.")
endif()
cudaep_ort_api_version(cudaep_ort_api ${cudaep_ort_dir})
if(NOT cudaep_ort_api OR cudaep_ort_api LESS CUDAEP_ORT_MIN_API)
  message(FATAL_ERROR "The ONNX Runtime headers in ${cudaep_ort_dir} declare API '${cudaep_ort_api}'; "
                      "${CUDAEP_ORT_MIN_API} or newer is needed.")
endif()
message(STATUS "ONNX Runtime headers: ${cudaep_ort_dir} (API ${cudaep_ort_api})")
set(CUDAEP_ORT_HEADERS ${cudaep_ort_dir} CACHE INTERNAL "the headers found, for tools/build_examples.sh")

add_library(cudaep_ort_headers INTERFACE)
target_include_directories(cudaep_ort_headers SYSTEM INTERFACE ${cudaep_ort_dir})
