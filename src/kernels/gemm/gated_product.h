// Gated products: y = activation(A * B1^T + bias1) * (A * B2^T + bias2), B1 and B2 the halves of the rows of B, fp16
// and bf16 with fp32 sums. No kernel reads and writes both halves of a product once more for it.
//
// Up to 16 rows as few_rows.h has them, by blocks of 64 columns, 32 of each half. More by the tiles of many_rows.h,
// half of whose columns are of either half of B: a thread has both factors of an element.
#pragma once

#include <optional>

#include "core/epilogue.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {

struct GatedProduct {
  DataType type = DataType::kFloat16;  // float16 or bfloat16
  int64_t m = 0, n = 0, k = 0;         // n: columns of the result, half of B's
  bool bias = false;
  Activation activation = Activation::kSilu;       // without parameters
  bool second = false;                             // whether the second half is the one that is activated
  bool constant_b = false, constant_bias = false;  // may be read before earlier work of the stream is done
};

struct GatedPointers {
  const void* a = nullptr;     // [m, k]
  const void* b = nullptr;     // [2 n, k]
  void* c = nullptr;           // [m, n]; none of the others
  const void* bias = nullptr;  // [2 n]; not read where the product has none
};

// Whether tiles end in the activation of a gate.
constexpr bool EndsTiles(Activation activation) {
  return activation == Activation::kSilu || activation == Activation::kGeluErf || activation == Activation::kGeluTanh;
}

// Of up to 16 rows; nothing too where a product of such sizes has narrow blocks, which have no gate.
std::optional<FewRowsPlan> PlanGatedFewRows(const GatedProduct& product, const device::DeviceInfo& device);
// Of more, where EndsTiles; tiles are not split. Nothing where a library's product with a kernel behind it is expected
// to take less time.
std::optional<WarpgroupPlan> PlanGatedRows(const GatedProduct& product, const device::DeviceInfo& device);

// All tensors are aligned to 16 bytes. An empty result launches nothing. Few rows: B is read before earlier kernels of
// the stream are done (copies are), whether it is said to be constant or not.
Status LaunchGatedFewRows(const GatedProduct& product, const FewRowsPlan& plan, const GatedPointers& at,
                          device::Stream stream);
// kInvalidArgument for what no tiles end in.
Status LaunchGatedRows(const GatedProduct& product, const WarpgroupPlan& plan, const GatedPointers& at,
                       device::Stream stream);

}  // namespace cudaep::kernels
