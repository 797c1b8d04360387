// Softmax and log-softmax of [outer, axis, inner], optionally of x + bias: one launch, each element read once where a
// row fits a block's registers or shared memory; of a longer row, what is left over is read twice.
//
// Numerics: fp32 (fp64 for double), the row's maximum subtracted. NaN, +infinity or nothing but -infinity in a row
// make the whole row NaN, as in the reference. `y` may be `x`.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/common/long_rows.h"
#include "kernels/common/row_plan.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kSoftmaxTypes = kFloatTypes;

// The row of a bias with `count` rows that belongs to row r of x: (r / repeat) % count.
struct BiasRows {
  int64_t repeat = 1, count = 1;
};

struct SoftmaxRowPlan : RowPlan {
  // Of rows that are not resident:
  unsigned long_threads = kLongThreads;
  int slots = 0;
  int64_t blocks = 0;  // that share the rows, 0 for one each
};

struct SoftmaxArgs {
  DataType type = DataType::kUndefined;
  const void* x = nullptr;
  const void* bias = nullptr;  // rows of the axis' length, or null
  void* y = nullptr;
  int64_t rows = 0, elems = 0;  // contiguous rows
  BiasRows bias_rows = {};
  bool log = false;
  SoftmaxRowPlan plan = {};  // of PlanSoftmax, or a test's choice
};

SoftmaxRowPlan PlanSoftmax(DataType type, int64_t rows, int64_t elems, const device::DeviceInfo& device);

struct SoftmaxChoice : RowChoice {
  unsigned long_threads = kLongThreads;  // of rows that are not resident: kLongThreads or half of them
};

// What a test or a measurement wants; kInvalidArgument where it cannot be.
Result<SoftmaxRowPlan> PlanSoftmax(DataType type, int64_t rows, int64_t elems, const device::DeviceInfo& device,
                                   const SoftmaxChoice& forced);

// Pointers that do not allow the plan's packs make it plan again without. kNotSupported for another type.
Status LaunchSoftmaxRows(const SoftmaxArgs& args, device::Stream stream);

struct SoftmaxStridedArgs {
  DataType type = DataType::kUndefined;
  const void* x = nullptr;
  void* y = nullptr;
  int64_t outer = 0, elems = 0, inner = 0;
  bool log = false;
};

// The axis is not the innermost dimension.
Status LaunchSoftmaxStrided(const SoftmaxStridedArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
