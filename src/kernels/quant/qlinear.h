// Operators on 8-bit integers that stand for reals: scales and zero points are known when they are launched.
//
// y = saturate(round(real / scale) + zero point); rounding is to nearest, ties to even.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

// What stands for each of the 256 bytes.
struct ByteTable {
  uint8_t of[256];
};

// y[r * y_stride + i] = table[x[r * row + i]] for i < row. May be in place where y_stride is row.
Status LaunchByteTable(const ByteTable& table, const void* x, void* y, int64_t rows, int64_t row, int64_t y_stride,
                       device::Stream stream);

enum class QLinearBinary : uint8_t { kAdd, kMul };

// Add: round(a_ratio * (a - a_zero) + b_ratio * (b - b_zero) + y_zero), the first sum rounded once after b's product
// was. Mul: round(a_ratio * (a - a_zero) * (b - b_zero) + y_zero). So a tie becomes an even code, as with the CPU
// provider; everywhere else the zero point is added behind. Ratios are of the scales to y's.
struct QLinearOperands {
  float a_ratio = 1, b_ratio = 1;
  int32_t a_zero = 0, b_zero = 0, y_zero = 0;
};

// `type` is int8 or uint8.
Status LaunchQLinearBinary(QLinearBinary op, DataType type, const QLinearOperands& operands, const void* a,
                           const void* b, void* y, const Broadcast<2>& broadcast, device::Stream stream);

}  // namespace cudaep::kernels
