// Writes rows of heads: taken to another layout, with a bias added, normalised, rotated by their position, appended to
// a cache.
//
// Memory bound. A row is the `size` neighbouring elements of one position and head.
#pragma once

#include <cstdint>
#include <span>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/attention/attention.h"

namespace cudaep::kernels {

// Rotation of the first `dim` elements of a row: pairs (x, y) become (x cos - y sin, x sin + y cos).
struct Rotary {
  int64_t dim = 0;           // even; 0: none
  bool interleaved = false;  // pairs are neighbours; otherwise one is half of `dim` after the other
  bool each = false;         // the caches have an element for each one of a row, not for each pair
  uint8_t unused[6] = {};    // whole words, as in HeadRows
  int64_t cache_rows = 0;    // of cos and sin, each of dim / 2 elements, or of dim
  // The row of the caches: position_ids[batch, new row]; with `offset_ids` the new row after position_ids[0]; without
  // ids batch * cache_batch_rows + past rows + new row, past rows not counting with `new_only`. Outside of the caches
  // the row becomes zeros.
  bool ids = false, offset_ids = false, new_only = false;
  uint8_t unused_too[5] = {};
  int64_t ids_batch_stride = 0;
  int64_t cache_batch_rows = 0;
};

enum class RowTarget : uint8_t {
  kWhole,    // all rows of `out`: those of `past`, the new ones, zeros
  kInPlace,  // the new rows behind the past ones that `out` holds already, as far as they fit
  kAlone,    // the new rows are all that `out` has; past rows only count for positions
};

// Whole words: padding would hold whatever the stack did, and the simulated device takes words for addresses.
struct HeadRows {
  DataType type = DataType::kFloat;  // one of kFloatTypes
  uint8_t unused[8 - sizeof(DataType)] = {};
  int64_t batch = 0, heads = 0, size = 0;
  int64_t new_rows = 0;  // of `in`
  int64_t rows = 0;      // of `out`
  AttentionStrides in, past, out;
  // Rows before the new ones; where `lengths` are given lengths[batch] + lengths_add of them, at least 0.
  // Those from `past_capacity` on, which `past` does not have, are zeros.
  int64_t past_rows = 0, lengths_add = 0, past_capacity = 0;
  float norm_epsilon = 0;  // of x / sqrt(mean(x^2) + epsilon) * norm, where HeadRowsPointers has norm
  RowTarget target = RowTarget::kWhole;
  bool norm_last = false;  // of rows as they are rotated, not before
  uint8_t unused_too[3 - sizeof(RowTarget)] = {};
  Rotary rotary = {};
};

struct HeadRowsPointers {
  const void* in = nullptr;
  const void* past = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;  // [heads, size] or null
  const void* norm = nullptr;  // [size] or null
  const void* cos = nullptr;
  const void* sin = nullptr;
  const int64_t* position_ids = nullptr;
  const int32_t* lengths = nullptr;
};

// Rows that are written for one call: queries, keys and values.
struct HeadRowsPart {
  HeadRows problem;
  HeadRowsPointers at;
};
inline constexpr size_t kMostHeadRowsParts = 3;
// Whether rows before the new ones are those of `past`, all of them, and there are some.
inline bool HasWholePast(const HeadRowsPart& part) {
  const HeadRows& p = part.problem;
  return p.target == RowTarget::kWhole && part.at.lengths == nullptr && p.past_rows > 0 &&
         p.past_rows <= p.past_capacity && p.rows == p.past_rows + p.new_rows;
}

// All of one type. One launch, two where only some suit packs. `out` may be `in` where both have the same strides and
// nothing is appended; no part may read what another one writes. kNotSupported beyond 2^31 rows of one batch entry.
Status LaunchHeadRows(std::span<const HeadRowsPart> parts, device::Stream stream);

inline Status LaunchHeadRows(const HeadRows& problem, const HeadRowsPointers& at, device::Stream stream) {
  const HeadRowsPart part{problem, at};
  return LaunchHeadRows({&part, 1}, stream);
}

}  // namespace cudaep::kernels
