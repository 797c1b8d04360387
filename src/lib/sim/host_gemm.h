// Matrix multiplication on the host by Eigen, for the library stand-ins of the simulated device.
//
// Runs on the calling thread. The only file that includes Eigen is host_gemm.cc.
#pragma once

#include <cstdint>

namespace cudaep::sim {

// C (m x n) = alpha * op(A) * op(B) + beta * C, row-major with `ld` elements between stored rows. With beta 0, C is
// not read. Sizes are positive.
template <class T>
struct HostGemm {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const T* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  T* c = nullptr;
  int64_t ldc = 0;
  T alpha = 1, beta = 0;
};

void Multiply(const HostGemm<float>& gemm);
void Multiply(const HostGemm<double>& gemm);
void Multiply(const HostGemm<int32_t>& gemm);  // wraps

// Whether this processor has the instructions that the files of this folder are compiled for.
bool HostCpuSupported();

}  // namespace cudaep::sim
