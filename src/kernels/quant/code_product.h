// Products of int8 codes with constant weights that end in codes again: C = codes(A * B^T).
//
//   x = (sum + shift[n]) * scale[n]            sum: int32, exact; fp32 from here on
//   x = requantized by `first`                 where that is: what its codes stand for
//   index = code of (x + bias[n]) by `last`, less the lowest code
//   y = table[index], or the code itself
//
// A code of x: x / scale rounded to a whole number, ties to even, plus a zero point, kept within 8 bits. What scales a
// number between two roundings to codes is one factor, so that a number next to a tie may get the code beside it
// (whole_range.cuh).
#pragma once

#include <cstdint>
#include <optional>

#include "core/status.h"
#include "device/device.h"
#include "kernels/gemm/warpgroup_tiles.h"

namespace cudaep::kernels {

inline constexpr int kMostCodeParts = 3;
inline constexpr int kCodeProductPack = 16;    // elements of rows of A and B that are moved at once
inline constexpr int kCodeProductColumns = 8;  // of C that are stored at once

// One step of quantization.
struct CodeStep {
  float inverse = 1;            // of its scale
  float least = 0, most = 255;  // the lowest code and the highest, without the zero point
};

// What follows the sums of some columns.
struct CodePart {
  CodeStep first, last;
  float ratio = 1;   // the scale of `first` by that of `last`
  int32_t zero = 0;  // the zero point of `last`
};

// Several products of the same A are one, whose parts have as many columns each and results of their own.
struct CodeFinish {
  const float* scale = nullptr;    // [n]
  const float* shift = nullptr;    // [n], or null
  const float* bias = nullptr;     // [n], or null
  const uint8_t* table = nullptr;  // [256], or null; of a single part, whose `last` has 256 codes
  void* c[kMostCodeParts] = {};    // [m, columns of a part], of each part; null: nobody reads it
  CodePart part[kMostCodeParts];
  int32_t has_first = 0;
  int32_t part_n = 0;  // columns of a part
  int32_t n = 0;       // of all
  int32_t m = 0;
};

// Of [m, k] by [parts * part_n, k]. The finest tiles where there is at most one for each multiprocessor, divided along
// k as long as that leaves each block much of it; of others finer ones where larger ones leave half of the device
// without work. Nothing where no tiles lie within a part: then each is a product of its own.
std::optional<WarpgroupPlan> PlanCodeProduct(int64_t m, int64_t part_n, int64_t parts, int64_t k,
                                             const device::DeviceInfo& device);

// Whether the kernel that multiplies and finishes takes [m, k] by [n, k].
bool TakesCodeProduct(int64_t m, int64_t n, int64_t k, const device::DeviceInfo& device);

// kWide takes columns that are whole segments. All tensors are contiguous and aligned to 16 bytes, rows of C to 8; B is
// constant: it is read before earlier work is done, and so are scale, shift, bias and table with `constant_columns`. An
// empty result launches nothing.
Status LaunchCodeProduct(const CodeFinish& finish, const WarpgroupPlan& plan, const void* a, const void* b,
                         bool constant_columns, int64_t k, device::Stream stream);
// The same of sums [m, n] that are there already.
Status LaunchFinishCodes(const CodeFinish& finish, const int32_t* sums, device::Stream stream);

}  // namespace cudaep::kernels
