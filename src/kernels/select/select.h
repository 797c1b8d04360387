// Finds the elements of a tensor that are not zero, in row-major order, in two steps: count, then write where they are.
//
// Between the steps the host reads the number back and gets memory for the result. A float is zero with either sign;
// NaN is not.
#pragma once

#include "core/data_type.h"
#include "core/dims.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kSelectTypes = kNumericTypes | DataTypeSet(DataType::kBool);
inline constexpr int kMaxSelectRank = 16;

// Elements are taken in chunks, one block each; `counts` has the elements found before each chunk, and their sum last.
struct SelectPlan {
  DataType type = DataType::kBool;
  int64_t elems = 0;
  int64_t chunks = 0;

  size_t count_bytes() const { return static_cast<size_t>(chunks + 1) * sizeof(int64_t); }
};
SelectPlan PlanSelect(DataType type, int64_t elems);

// Fills `counts` (plan.count_bytes()); counts[plan.chunks] is the number of elements that are not zero.
Status LaunchCountNonZero(const SelectPlan& plan, const void* x, int64_t* counts, device::Stream stream);

// The row-major positions of these elements, ascending: out[i] of the i-th.
Status LaunchWritePositions(const SelectPlan& plan, const void* x, const int64_t* counts, int64_t* out,
                            device::Stream stream);

// Their coordinates: out[d * total + i] of the i-th in dimension d. kNotSupported over kMaxSelectRank dimensions.
Status LaunchWriteCoordinates(const SelectPlan& plan, Dims dims, const void* x, const int64_t* counts, int64_t total,
                              int64_t* out, device::Stream stream);

}  // namespace cudaep::kernels
