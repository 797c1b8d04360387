// C = activation(A * B^T + bias + residual), fp16 and bf16 with fp32 sums, for devices of 9.0. Planned for more rows
// than few_rows.h takes. Sums are added in one order: results never differ from run to run.
//
// A tile for each multiprocessor at most, of 64 rows: what such a product takes is mostly waiting, for its launch, for
// memory and for what it reads. So its blocks are there while earlier work still runs, with all of the weights that
// their shared memory holds, and few tiles are cut along the inner dimension. Where weights
// are large and rows 64 at most, blocks may have several tiles: what such a product takes is reading weights.
//
// Many rows and few inner elements: libraries have no product with GELU that is as fast as theirs without, and as a
// kernel of its own that reads and writes the result once more. Here a block's warps finish a tile while tensor cores
// work on the next, and what they do for each element is little. Pointwise convolutions of few channels (PlanPointwise)
// are bound by memory bandwidth: A and the residual are read once, well ahead.
#pragma once

#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "core/epilogue.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {

inline constexpr int kManyRowsColumns = 32;  // n is a multiple of it
inline constexpr int kManyRowsPack = 8;      // elements of rows of A and B that are moved at once

struct ManyRowsProduct {
  DataType type = DataType::kFloat16;  // float16 or bfloat16
  int64_t m = 0, n = 0, k = 0;
  bool bias = false, residual = false;
  // GELU by erf: without a residual, by all tiles but kFine, kBroad and kTall. None and ReLU: with and without one, by
  // kFinest, kFlat and kSmall; none also without one by kBroad and kTurns.
  Activation activation = Activation::kNone;
  bool constant_b = false, constant_bias = false;  // may be read before earlier work of the stream is done
};

struct ManyRowsPointers {
  const void* a = nullptr;         // [m, k]
  const void* b = nullptr;         // [n, k]
  void* c = nullptr;               // [m, n]; neither a, b nor bias
  const void* bias = nullptr;      // [n]; not read where the product has none
  const void* residual = nullptr;  // [m, n], likewise; may be c
};

constexpr bool IsNoneOrRelu(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu;
}

// Whether kernels take sizes and type.
bool TakesManyRows(const ManyRowsProduct& product, const device::DeviceInfo& device);
// Nothing too where the library's product, with a kernel for GELU behind it, is expected to take less time.
std::optional<WarpgroupPlan> PlanManyRows(const ManyRowsProduct& product, const device::DeviceInfo& device);
// Of a pointwise convolution, whose pixels are the rows: nothing too where the library's is expected to take less time.
std::optional<WarpgroupPlan> PlanPointwise(const ManyRowsProduct& product, const device::DeviceInfo& device);

// Of a product that TakesManyRows takes, with tiles that there are for its activation and residual: kInvalidArgument
// otherwise, or kNotSupported for other types. All tensors are aligned to 16 bytes. An empty result launches nothing.
Status LaunchManyRows(const ManyRowsProduct& product, const WarpgroupPlan& plan, const ManyRowsPointers& at,
                      device::Stream stream);

}  // namespace cudaep::kernels
