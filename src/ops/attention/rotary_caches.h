// Cosines and sines as models compute them: an element for each element of a row, for every position of the batch or
// one for all entries of it. Operators of compiled regions read them so; no row is looked up.
#pragma once

#include "kernels/attention/head_rows.h"
#include "ops/tensor_view.h"

namespace cudaep::ops {

// Where the caches have the positions: as queries lie, heads first or rows first, with a dimension of 1 for the heads.
// Fewer dimensions than 4 have dimensions of 1 ahead.
enum class CacheForm { kHeadsFirst, kRowsFirst };

// Whether caches of these dimensions are one of `form` for `batch` entries of `rows` rows.
bool IsCacheOf(Dims cos, CacheForm form, int64_t batch, int64_t rows);

// The rotation by caches of either form; an error where they are none, or do not fit rows of `size` elements.
Result<kernels::Rotary> RotaryOf(Dims cos, Dims sin, int64_t batch, int64_t rows, int64_t size);

}  // namespace cudaep::ops
