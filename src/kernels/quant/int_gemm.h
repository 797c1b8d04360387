// Products of 8-bit integers with exact int32 sums, and what follows them: zero points, scales, bias, another type.
//
//   acc = sum over k of (A[m, k] - a_zero) * (B[k, n] - b_zero)       int32, which may wrap
//   scale = alpha * a_scale * b_scale
//   int32:        y = acc + bias
//   int8, uint8:  y = saturate(round((acc + bias) * (scale / y_scale)) + y_zero)
//   floats:       y = acc * scale + bias, or (acc + bias) * scale with a bias of int32
//
// Tensor cores do the products; sums over rows and columns, which zero points are taken off with, are products with
// ones. Rounding is to nearest, ties to even.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kIntGemmBatchRank = 3;

struct IntGemmBatch {
  int64_t size = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices
};

// Values of the rows of A, counted through its matrices, or of the columns of B; they repeat after `period`.
struct IntGemmVector {
  const void* data = nullptr;  // null: none
  int64_t period = 1;
};

struct IntGemm {
  DataType a_type = DataType::kUint8, b_type = DataType::kInt8, y_type = DataType::kInt32;
  DataType scale_type = DataType::kFloat;  // float, float16 or bfloat16
  DataType bias_type = DataType::kInt32;   // or y's, where that is a float
  float alpha = 1;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements between rows as stored
  bool transpose_b = false;           // B is stored [n, k]
  bool bias_of_rows = false;          // not of columns
  uint8_t unused[6] = {};             // what gaps hold by chance may look like an address to the simulated device
  IntGemmBatch batch[kIntGemmBatchRank];
};

struct IntGemmPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;
  IntGemmVector a_zero, b_zero, a_scale, b_scale;
  const void* y_scale = nullptr;
  const void* y_zero = nullptr;
  IntGemmVector bias;
  const int32_t* biases = nullptr;          // instead of a bias: one for each element of y, which has no batches
  int64_t first_row = 0, first_column = 0;  // numbers of A's first row and B's first column
};

// y: int32, int8, uint8, float, float16. An empty result launches nothing.
Status LaunchIntGemm(const IntGemm& gemm, const IntGemmPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
