// Weights of 4 bits that are numbers of a table, as bitsandbytes stores them: com.microsoft's MatMulBnb4.
//
// Elements [n, k] lie one after the other, two in a byte, the first in its upper half; each `block` of them has a
// scale. Source of the tables: T. Dettmers et al., "QLoRA", 2023 (NF4); E2M1 numbers over their largest, but for the
// smallest, which is 1 / 192 (FP4).
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

enum class Bnb4Table : uint8_t { kFp4, kNf4 };

struct Bnb4Weights {
  DataType type = DataType::kFloat;  // of the scales and what is computed: kFloatTypesNoDouble
  Bnb4Table table = Bnb4Table::kFp4;
  int64_t n = 0, k = 0;
  int64_t block = 64;  // a power of two, at least 16
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;
};

// matrix[n, k] of the type.
Status LaunchDequantizeBnb4(const Bnb4Weights& weights, void* matrix, device::Stream stream);

// y[m, n] = a[m, k] * weights^T for at most kMostBnb4Rows rows, summed in fp32; bound by reading the codes.
inline constexpr int64_t kMostBnb4Rows = 8;
Status LaunchMatMulBnb4(const Bnb4Weights& weights, const void* a, int64_t m, void* y, device::Stream stream);

}  // namespace cudaep::kernels
