// Attention of int8 codes whose scores and shares are rounded to codes, as QuantizeLinear and DequantizeLinear around
// each of its operators say:
//
//   r = whole(scores, (q - q_zero) . (k - k_zero))          then, where it is, r = whole(scaled, r)
//   r = whole(masked, r, mask)                              where there is a mask by key
//   share = exp2(exponent * (r - largest r of the row)) / sum over the row
//   y = whole(result, sum over keys of whole(shares, share) * (v - v_zero)) + y_zero
//
// whole(step, x, mask) = x * step.factor + mask, rounded to a whole number, ties to even, within [least, most]: a code
// less its zero point. Sums of products are exact as long as a row's shares come to less than 2^24 / 255 codes. A
// number next to a tie may get the code beside it (whole_range.cuh). Keys are read in tiles, twice where there are
// several.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/attention/attention.h"

namespace cudaep::kernels {

inline constexpr int64_t kCodeAttentionHead = 64;  // elements at most
inline constexpr int64_t kCodeAttentionPack = 16;  // heads are whole packs

// Of the kernels of warps: keys that lie in shared memory at a time.
inline constexpr int64_t kCodeWarpsKeys = 128;
// Of the kernel of warpgroups: keys at most, which lie there all at once, and rows of a block.
inline constexpr int64_t kCodeHeadsKeys = 128, kCodeHeadsRows = 64;

struct CodeAttentionStep {
  float factor = 1, least = -128, most = 127;
};

// A whole word, as `unused` below says.
enum class CodeAttentionKernel : int32_t {
  kWarps,      // a warp has all keys of its 16 rows
  kKeyWarps,   // two warps share them, each with a part of the keys
  kWarpgroup,  // a warpgroup has all keys of its 64 rows
};

struct CodeAttention {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_size = 0;
  AttentionStrides q, k, v, y;
  int32_t q_zero = 0, k_zero = 0, v_zero = 0;
  int32_t y_zero = 0;  // with the result's lowest number the lowest code, -128 or 0
  CodeAttentionStep scores, scaled, masked, shares, result;
  int32_t has_scaled = 0;
  CodeAttentionKernel kernel = CodeAttentionKernel::kWarps;
  float exponent = 1;
  // Of the mask: what a number, or a code less its zero point, is multiplied by.
  DataType mask = DataType::kUndefined;  // kFloat, kInt8, kUint8; none
  // Without padding, where the simulated device, which looks for pointers, might find an old one.
  uint8_t unused[3] = {};
  int32_t mask_zero = 0;
  float mask_factor = 1;
  int32_t unused_word = 0;
  int64_t mask_stride = 0;  // elements between entries of the batch
};
static_assert(offsetof(CodeAttention, mask_stride) == offsetof(CodeAttention, unused_word) + sizeof(int32_t));

struct CodeAttentionPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;  // [batch or 1, keys]
  void* y = nullptr;
};

// Of devices with tensor cores for float16.
bool TakesCodeAttention(const CodeAttention& attention);
// Whether the kernel of warpgroups takes it, on devices that have them.
bool TakesCodeHeads(const CodeAttention& attention);
// The fastest for it.
CodeAttentionKernel CodeAttentionKernelOf(const CodeAttention& attention, const device::DeviceInfo& device);
// Whether `scaled` leaves each whole number that `scores` makes as it is, so that it is left out.
bool IsScaledIdle(const CodeAttention& attention);

// An empty result launches nothing; without keys all sums are 0. Tensors that are not aligned to 16 bytes, rows
// included, are kWarps' instead of a warpgroup's.
Status LaunchCodeAttention(const CodeAttention& attention, const CodeAttentionPointers& at, device::Stream stream);

// Its kernels, for results that are not empty: kWarps and kKeyWarps, and those of warpgroups for aligned tensors.
Status LaunchCodeWarps(const CodeAttention& attention, const CodeAttentionPointers& at, bool aligned,
                       device::Stream stream);
Status LaunchCodeHeads(const CodeAttention& attention, const CodeAttentionPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
