# `cmake --install build/PRESET --prefix PLACE`: the library, its CMake package and its licences.
#
# Both libraries may be installed to one place; each brings a targets file of its own, and find_package takes what is
# there. Host applications load the library at run time, so the package has no header.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(cudaep_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ort_cuda_ep)
if(CUDAEP_DEVICE STREQUAL "cuda")
  set(cudaep_plugin ort_cuda_ep)
else()
  set(cudaep_plugin ort_cuda_ep_sim)
endif()
set_target_properties(${cudaep_plugin} PROPERTIES EXPORT_NAME ${CUDAEP_DEVICE})
install(TARGETS ${cudaep_plugin} EXPORT ort_cuda_ep-${CUDAEP_DEVICE} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ort_cuda_ep-${CUDAEP_DEVICE} NAMESPACE ort_cuda_ep:: DESTINATION ${cudaep_package_dir})

write_basic_package_version_file(${CMAKE_BINARY_DIR}/ort_cuda_ep-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES cmake/ort_cuda_ep-config.cmake ${CMAKE_BINARY_DIR}/ort_cuda_ep-config-version.cmake
        DESTINATION ${cudaep_package_dir})
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
