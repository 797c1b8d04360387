// Matrix multiplication by the project's own kernel: integers, inner size 0, and floats where no library can help.
//
// A plain shared-memory tiling without tensor cores; the libraries behind lib/blas.h are faster wherever they apply.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kTiledGemmTypes =
    kFloatTypes | DataTypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

// C = alpha * op(A) * op(B) + beta * C + bias, row-major, `batch` times; the fields mean what they do in lib/blas.h.
// Integers wrap. An alpha or beta that is no whole number scales them in double and truncates towards zero.
struct TiledGemm {
  DataType type = DataType::kFloat;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  double alpha = 1.0, beta = 0.0;
};

// `bias` has n elements or is null. C is not read when beta is 0. An empty result launches nothing.
Status LaunchTiledGemm(const TiledGemm& gemm, const void* a, const void* b, const void* bias, void* c,
                       device::Stream stream);

}  // namespace cudaep::kernels
