# cudaep_limit_exports(TARGET): the shared library exports the plug-in's two functions and nothing else.
set(CUDAEP_EXPORTS_MAP ${CMAKE_CURRENT_LIST_DIR}/exports.map)
function(cudaep_limit_exports target)
  target_link_options(${target} PRIVATE -Wl,--version-script=${CUDAEP_EXPORTS_MAP} -Wl,--exclude-libs,ALL)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CUDAEP_EXPORTS_MAP})
endfunction()
