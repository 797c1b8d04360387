# Compiler settings shared by every target, on the interface library `cudaep_options`.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(CUDAEP_SANITIZER)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # kernels compile in two thirds of the time, and nobody times these builds
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CUDAEP_CCACHE ccache)
option(CUDAEP_COMPILE_TIMES "write the CPU time of each compilation to compile_times.log, for tools/checks/compile_budget.py" OFF)
set(cudaep_launcher "")
if(CUDAEP_COMPILE_TIMES)
  list(APPEND cudaep_launcher ${PROJECT_SOURCE_DIR}/tools/compile_time.sh ${CMAKE_BINARY_DIR}/compile_times.log)
endif()
if(CUDAEP_CCACHE)
  list(APPEND cudaep_launcher ${CUDAEP_CCACHE})
endif()
set(CMAKE_CXX_COMPILER_LAUNCHER ${cudaep_launcher})
set(CMAKE_CUDA_COMPILER_LAUNCHER ${cudaep_launcher})

# Of `.cu` files where the host compiler compiles them. Under the address sanitizer, checks are calls and of the undefined
# behaviour three kinds are looked for, those that kernels meet: half the time of all of them, inline.
set(CUDAEP_HOST_KERNEL_OPTIONS "-xc++;-fdata-sections")
if(CUDAEP_SANITIZER STREQUAL "address")
  list(APPEND CUDAEP_HOST_KERNEL_OPTIONS -fno-sanitize=undefined -fsanitize=alignment,shift,signed-integer-overflow
              --param=asan-instrumentation-with-call-threshold=0)
endif()

add_library(cudaep_options INTERFACE)
target_include_directories(cudaep_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
# -fno-gnu-unique: a second copy of a library in the process (PyTorch's) must never share our inline statics.
target_compile_options(cudaep_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<IF:$<BOOL:${CUDAEP_PRECOMPILED_HEADERS}>,-Wno-array-bounds,-Werror> -Wno-unknown-pragmas -Wno-missing-field-initializers -fno-gnu-unique -fno-math-errno>)
target_compile_definitions(cudaep_options INTERFACE CUDAEP_VERSION="${PROJECT_VERSION}")
target_link_options(cudaep_options INTERFACE -Wl,--no-undefined)

if(CUDAEP_DEVICE STREQUAL "cuda")
  set(CMAKE_CUDA_ARCHITECTURES "90" CACHE STRING "real architectures of the fat binary")
  enable_language(CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
  set(CMAKE_CUDA_STANDARD 20)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know the dialects of nvcc 13
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(cudaep_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xfatbin=-compress-all;-Xcompiler=-fno-gnu-unique;-Wno-deprecated-gpu-targets>)
  target_include_directories(cudaep_options SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
else()
  target_compile_definitions(cudaep_options INTERFACE CUDAEP_SIMULATED_DEVICE=1)
  target_link_options(cudaep_options INTERFACE -Wl,-T,${PROJECT_SOURCE_DIR}/cmake/shared_memory.ld)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(cudaep_options INTERFACE -mf16c)  # hardware conversions: fp16 kernels run four times faster
  endif()
endif()

if(CUDAEP_SANITIZER STREQUAL "address")
  target_compile_options(cudaep_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(cudaep_options INTERFACE -fsanitize=address,undefined)
elseif(CUDAEP_SANITIZER STREQUAL "thread")
  target_compile_options(cudaep_options INTERFACE -fsanitize=thread)
  target_link_options(cudaep_options INTERFACE -fsanitize=thread)
elseif(CUDAEP_SANITIZER)
  message(FATAL_ERROR "CUDAEP_SANITIZER must be empty, address or thread, not '${CUDAEP_SANITIZER}'")
endif()
