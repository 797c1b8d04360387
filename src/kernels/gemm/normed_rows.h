// Layer normalisation between products, without a kernel of its own and without the normalised rows in memory: fp16 and
// bf16 with fp32 sums, for devices of 9.0, by tiles of 64 rows (many_rows.h).
//
// Rows y [m, width] that are normalised where they are read are kept scaled, u = y * gamma / scale, with moments
// [m, width / 32, 2]: mean and variance of each 32 elements of y. `scale` is a power of two that leaves no factor above
// 1, so that u overflows no sooner than y, and hardly less where that can be, so that it keeps its digits. With mean
// and deviation (the root of variance + epsilon) of a row,
//   normalised = (scale * u - mean * gamma) / deviation + beta
// and its product with B, of a single product with u and two numbers for each column:
//   (scale * (u * B^T) - mean * sum(gamma * B)) / deviation + sum(beta * B)
// Rows that are the same number but for what rounding makes of it, of a deviation below half a unit of their mean's
// last place, count as such: normalised they are beta. Results never differ from run to run.
#pragma once

#include "kernels/gemm/many_rows.h"

namespace cudaep::kernels {

inline constexpr int kMomentElems = 32;  // of a mean and a variance
inline constexpr int kNormedPack = 64;   // elements of rows that are normalised: two means and variances at once

constexpr int64_t MomentBytes(int64_t m, int64_t width) {
  return m * (width / kMomentElems) * 2 * static_cast<int64_t>(sizeof(float));
}

// Of rows that are kept so.
struct KeptNorm {
  float epsilon = 0;
  float scale = 1;
};

// C = activation(normalised * B^T + bias): none, ReLU or GELU by erf.
struct NormedRowsProduct {
  DataType type = DataType::kFloat16;
  int64_t m = 0, n = 0, k = 0;
  Activation activation = Activation::kNone;
  KeptNorm norm;
  bool constant_b = false;  // B may be read before earlier work of the stream is done
};
struct NormedRowsPointers {
  const void* u = nullptr;         // [m, k]
  const float* moments = nullptr;  // [m, k / 32, 2]
  const void* b = nullptr;         // [n, k]
  const float* columns = nullptr;  // [2, n]: sum(gamma * B), and the bias with sum(beta * B)
  void* c = nullptr;               // [m, n]
};

// y = A * B^T + bias + residual, kept for a normalisation.
struct RowsToNormProduct {
  DataType type = DataType::kFloat16;
  int64_t m = 0, n = 0, k = 0;
  std::optional<KeptNorm> residual;  // how the residual is kept; nothing: as it is
  bool constant_b = false;           // as above
};
struct RowsToNormPointers {
  const void* a = nullptr;                  // [m, k]
  const void* b = nullptr;                  // [n, k]
  const float* columns = nullptr;           // [4, n]: bias, gamma / scale, and of a kept residual gamma and beta
  const void* residual = nullptr;           // [m, n]; may be u
  const float* residual_moments = nullptr;  // [m, n / 32, 2], of a kept one
  void* u = nullptr;                        // [m, n]; null: nobody reads it
  float* moments = nullptr;                 // [m, n / 32, 2], with u
  void* y = nullptr;                        // [m, n]; null: nobody reads it
};

// Of products that TakesManyRows takes, with widths of kNormedPack, and tiles of 64 rows: kInvalidArgument otherwise,
// or kNotSupported for other types. `columns` are read before earlier work of the stream is done. All tensors are
// aligned to 16 bytes. An empty result launches nothing.
Status LaunchNormedRows(const NormedRowsProduct& product, const WarpgroupPlan& plan, const NormedRowsPointers& at,
                        device::Stream stream);
Status LaunchRowsToNorm(const RowsToNormProduct& product, const WarpgroupPlan& plan, const RowsToNormPointers& at,
                        device::Stream stream);

}  // namespace cudaep::kernels
