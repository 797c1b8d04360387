// Rotations whose cosines and sines no cache row of RotaryEmbedding gives: com.microsoft's MRotaryEmbedding, where
// each pair takes one of three positions, and GemmaRotaryEmbedding, where angles are given.
//
// Memory bound. A thread has one pair, or element, of a position in several heads, so that what heads share is worked
// out once for them.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// Pairs (a, b) of the first `dim` elements become scale (a cos - b sin, a sin + b cos), the others stay. Pair i has
// the position of time, height or width. In sections: first those of time, then of height, then of width. With
// alternating positions: of height if i mod 3 is 1 and i below 3 * section[1], of width if it is 2 and i below
// 3 * section[2], of time otherwise. A position outside of the caches gives zeros.
struct SectionRotary {
  DataType type = DataType::kFloat;  // kFloatTypesNoDouble
  bool interleaved = false;          // pairs are neighbours; otherwise one is half of `dim` after the other
  bool alternating = false;
  uint8_t unused = 0;  // whole words, which the simulated device takes for addresses
  float scale = 1;
  int64_t section[3] = {};
  int64_t batch = 0, heads = 0, rows = 0, size = 0, dim = 0;
  int64_t entry_stride = 0, head_stride = 0, row_stride = 0;  // of input and output
  int64_t cache_rows = 0;
};

// ids is [3, batch, rows], cos and sin [cache_rows, dim / 2]. `out` may be `in`. One launch.
Status LaunchSectionRotary(const SectionRotary& rotary, const void* in, const int64_t* ids, const void* cos,
                           const void* sin, void* out, device::Stream stream);

// out = x cos(angle) + x_rotated sin(angle), of fp16, with cosine and sine rounded to it; two tensors for the same
// angles. angles are [batch, rows, size], x [batch, heads, rows, size]. `out` may be either of the two. One launch.
struct AngleRotary {
  int64_t batch = 0, rows = 0, size = 0;
  const float* angles = nullptr;
  int64_t heads[2] = {};
  const void *x[2] = {}, *rotated[2] = {};
  void* out[2] = {};
};
Status LaunchAngleRotary(const AngleRotary& rotary, device::Stream stream);

}  // namespace cudaep::kernels
