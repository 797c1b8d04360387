#include "ops/attention/rotary_caches.h"

namespace cudaep::ops {
namespace {

// Counted from the end; 1 ahead of the first.
int64_t DimFromEnd(Dims dims, size_t at) { return at <= dims.size() ? dims[dims.size() - at] : 1; }

}  // namespace

bool IsCacheOf(Dims cos, CacheForm form, int64_t batch, int64_t rows) {
  const size_t rows_at = form == CacheForm::kHeadsFirst ? 2 : 3, heads_at = form == CacheForm::kHeadsFirst ? 3 : 2;
  const int64_t entries = DimFromEnd(cos, 4);
  return !cos.empty() && cos.size() <= 4 && DimFromEnd(cos, rows_at) == rows && DimFromEnd(cos, heads_at) == 1 &&
         (entries == 1 || entries == batch);
}

Result<kernels::Rotary> RotaryOf(Dims cos, Dims sin, int64_t batch, int64_t rows, int64_t size) {
  const bool fits =
      IsCacheOf(cos, CacheForm::kHeadsFirst, batch, rows) || IsCacheOf(cos, CacheForm::kRowsFirst, batch, rows);
  if (!SameDims(cos, sin) || !fits) {
    return InvalidArgument("cos ", cos, " and sin ", sin, " must both have a row for each of [", batch, ",", rows,
                           "] positions, or for each of ", rows);
  }
  if (cos.back() % 2 != 0 || cos.back() > size) {
    return InvalidArgument("of heads of ", size, " elements ", cos.back(), " cannot be rotated");
  }
  const bool for_all = DimFromEnd(cos, 4) == 1;
  kernels::Rotary rotary{.dim = cos.back(), .each = true};
  rotary.cache_rows = for_all ? rows : batch * rows;
  rotary.cache_batch_rows = for_all ? 0 : rows;
  rotary.new_only = true;
  return rotary;
}

}  // namespace cudaep::ops
