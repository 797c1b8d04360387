// Products with weights of 2, 4 or 8 bits in blocks along the inner dimension, each block with a scale and a zero
// point.
//
// A column of the weights is a row of 32-bit words; a word holds 32 / bits consecutive elements of the inner dimension,
// the first in its lowest bits. As models store them, the words of one column follow each other, and so do its scales;
// packed for these kernels the same word (or scale) of all columns does, so that a warp reads 128 bytes at a time.
//
// Few rows are multiplied as they meet the words, up to 64 of them through tensor cores where these have the types; for
// many, the weights become a matrix of A's type in scratch memory and the product is the library's. Weights in groups
// of their own (g_idx), and at odd addresses, take the plain kernel.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

enum class NBitsZeroPoint : uint8_t {
  kMiddle,    // 2^(bits - 1) everywhere
  kPacked,    // one of `bits` bits a block, packed as the weights are, each column beginning with a byte
  kFloating,  // one of the type of the scales a block
};

// y[m, n] = a[m, k] * dequantised(b)[k, n] + bias[n]
struct MatMulNBits {
  DataType type = DataType::kFloat;  // of a, scales, bias and y: float, float16 or bfloat16
  int bits = 4;                      // 2, 4 or 8
  bool packed = false;               // how b lies in memory
  bool packed_scales = false, packed_zero_points = false;
  NBitsZeroPoint zero_point = NBitsZeroPoint::kMiddle;
  int64_t m = 0, n = 0, k = 0;
  int64_t block = 32;  // elements that share a scale: a power of two, at least 16

  int64_t blocks() const { return (k + block - 1) / block; }
  int64_t words() const { return blocks() * block * bits / 32; }          // of a column
  int64_t zero_point_bytes() const { return (blocks() * bits + 7) / 8; }  // of a column, kPacked
  // Of a model's constants, and as the kernels like them.
  bool all_packed() const {
    return packed && packed_scales && (zero_point == NBitsZeroPoint::kMiddle || packed_zero_points);
  }
};

// Rows from which on reading the weights once into a matrix costs less than multiplying them as they come.
inline constexpr int64_t kNBitsMatrixRows = 17;
// Most rows of the kernel of tensor cores, which reads weights for 64 rows as it does for one.
inline constexpr int64_t kNBitsTensorRows = 64;

struct MatMulNBitsPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* scales = nullptr;  // [n, blocks]
  const void* zero_points = nullptr;
  const int32_t* groups = nullptr;  // of each k, the block whose scale it has; null: k / block. Never followed outside.
  const void* bias = nullptr;       // null: none
  void* y = nullptr;
};

// Whether the kernels below take the problem; the plain one takes all, with b at any address when it is not packed.
// What has no element launches nothing.
bool IsPlainNBits(const MatMulNBitsPointers& at);
Status LaunchMatMulNBits(const MatMulNBits& problem, const MatMulNBitsPointers& at, device::Stream stream);
// For fewer than kNBitsMatrixRows rows; kInvalidArgument for others.
Status LaunchMatMulNBitsRows(const MatMulNBits& problem, const MatMulNBitsPointers& at, device::Stream stream);
// Up to kNBitsTensorRows rows of 16-bit floats, where the device has tensor cores and all constants are packed (and so
// aligned to 16 bytes): blocks of 128 / bits or more, whole zero points, columns by fours. kInvalidArgument for others.
bool FitsNBitsTensorCores(const MatMulNBits& problem, const device::DeviceInfo& device);
Status LaunchMatMulNBitsTensorCores(const MatMulNBits& problem, const MatMulNBitsPointers& at,
                                    const device::DeviceInfo& device, device::Stream stream);
// matrix[k, n], of the problem's type.
Status LaunchDequantizeNBits(const MatMulNBits& problem, const MatMulNBitsPointers& at, void* matrix,
                             device::Stream stream);

}  // namespace cudaep::kernels
