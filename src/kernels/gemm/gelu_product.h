// Products of many rows with GELU: C = gelu(A * B^T + bias), by erf, fp16 and bf16 with fp32 sums, for devices of 9.0.
//
// Libraries have no such product that is as fast as theirs without the activation, and as a kernel of its own that
// reads and writes the result once more. Here a block's warps compute it, in few instructions, while tensor cores work
// on. Sums are added in one order: results never differ from run to run.
#pragma once

#include <cstdint>
#include <optional>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {

inline constexpr int kGeluProductPack = 8;  // elements that are moved at once: n and k are multiples of it

struct GeluProduct {
  DataType type = DataType::kFloat16;  // float16 or bfloat16
  int64_t m = 0, n = 0, k = 0;
  bool bias = false;
};

struct GeluProductPointers {
  const void* a = nullptr;     // [m, k]
  const void* b = nullptr;     // [n, k]
  void* c = nullptr;           // [m, n]; none of the others
  const void* bias = nullptr;  // [n]; not read where the product has none
};

// Whether the kernel takes the product at all.
bool TakesGeluProduct(const GeluProduct& product, const device::DeviceInfo& device);
// Nothing too where the library's product with a kernel behind it is expected to take less time.
std::optional<WarpgroupPlan> PlanGeluProduct(const GeluProduct& product, const device::DeviceInfo& device);

// All tensors are aligned to 16 bytes. An empty result launches nothing.
Status LaunchGeluProduct(const GeluProduct& product, const WarpgroupPlan& plan, const GeluProductPointers& at,
                         device::Stream stream);

}  // namespace cudaep::kernels
