# find_package(ort_cuda_ep [COMPONENTS cuda sim]) gives, of the libraries that are installed here:
#
#   ort_cuda_ep::cuda   for NVIDIA GPUs
#   ort_cuda_ep::sim    for the simulated device
#
# They are plug-ins: nothing links them. $<TARGET_FILE:ort_cuda_ep::cuda> is the path that an application passes to
# Ort::Env::RegisterExecutionProviderLibrary, and
#
#   ort_cuda_ep_PROVIDER_NAME   the name of the execution provider
foreach(device IN ITEMS cuda sim)
  set(ort_cuda_ep_${device}_FOUND OFF)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/ort_cuda_ep-${device}.cmake)
    include(${CMAKE_CURRENT_LIST_DIR}/ort_cuda_ep-${device}.cmake)
    set(ort_cuda_ep_${device}_FOUND ON)
  endif()
endforeach()
foreach(component IN LISTS ort_cuda_ep_FIND_COMPONENTS)
  if(NOT ort_cuda_ep_${component}_FOUND AND ort_cuda_ep_FIND_REQUIRED_${component})
    set(ort_cuda_ep_FOUND OFF)
    string(APPEND ort_cuda_ep_NOT_FOUND_MESSAGE
           "ort_cuda_ep: there is no component '${component}' beside ${CMAKE_CURRENT_LIST_DIR}; "
           "`cmake --install build/${component}` of a source tree installs it. ")
  endif()
endforeach()
set(ort_cuda_ep_PROVIDER_NAME CUDAExecutionProvider)
