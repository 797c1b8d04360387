// The k largest or smallest elements along one axis, with their positions.
//
// One block a row: a radix selection finds the k-th value digit by digit, the elements that belong to the result are
// collected in the order of their positions, and a bitonic network sorts them where that is asked for. Equal elements
// keep the order of their positions, and of those at the border the first ones are taken. NaN is above all numbers;
// zeros of both signs are equal.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kTopKTypes = kNumericTypes;

// x is [outer, axis, inner], values and positions are [outer, k, inner]; 0 <= k <= axis < 2^31.
struct TopK {
  DataType type = DataType::kFloat;
  int64_t outer = 0, axis = 0, inner = 0, k = 0;
  bool largest = true, sorted = true;

  // Rows' keys and positions while they are put in order.
  size_t scratch_bytes() const;
};

Status LaunchTopK(const TopK& problem, const void* x, void* values, int64_t* positions, void* scratch,
                  device::Stream stream);

}  // namespace cudaep::kernels
