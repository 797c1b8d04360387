// What lib/cuda/device_state.cc uses of the CUDA runtime; the test that links it counts the calls.
#pragma once

enum cudaError_t { cudaSuccess };
extern "C" cudaError_t cudaGetLastError();
