// Matrix multiplication by the project's own kernel: integers, inner size 0, and floats where no library can help.
//
// A plain shared-memory tiling without tensor cores; the libraries behind lib/blas.h are faster wherever they apply.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kTiledGemmTypes =
    kFloatTypes |
    DataTypeSet{DataType::kInt8, DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
inline constexpr int kTiledGemmBatchRank = 3;

// One of the dimensions over which the product repeats, in elements between matrices.
struct TiledGemmBatch {
  int64_t size = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
};

// C = activation(alpha * op(A) * op(B) + bias + beta * residual), row-major; the fields mean what they do in
// lib/blas.h. Integers wrap, have no activation, and int8 gives int32. An alpha or beta that is no whole number scales
// integers in double and truncates towards zero.
struct TiledGemm {
  DataType type = DataType::kFloat;  // of A and B
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;
  TiledGemmBatch batch[kTiledGemmBatchRank];
  Epilogue epilogue;
};

struct TiledGemmPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;               // may be the residual
  const void* bias = nullptr;      // n elements; not read where the epilogue has none
  const void* residual = nullptr;  // likewise
};

// An empty result launches nothing.
Status LaunchTiledGemm(const TiledGemm& gemm, const TiledGemmPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
