// Writes rows of updates into a tensor at rows that indices in device memory name (ScatterElements, ScatterND).
//
// A negative index counts from the end. An update whose index lies outside its axis is left out. Where several updates
// name one row: kNone keeps one of them, whichever; the others combine all of them with what the tensor had there, in
// any order. LaunchScatterSorted has an order, and keeps the last one.
#pragma once

#include "core/data_type.h"
#include "kernels/movement/index_tuples.h"
#include "kernels/sort/sort_rows.h"

namespace cudaep::kernels {

enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

inline constexpr DataTypeSet kScatterReductionTypes = kNumericTypes | DataTypeSet(DataType::kBool);

// Update i goes to row base(i) + row of tuple i. Rows are elements for ScatterElements, whose base is a strided view of
// the data with the shape of the indices and a stride of 0 along the axis; ScatterND has no base.
struct Scatter {
  ScatterReduction reduction = ScatterReduction::kNone;
  DataType type = DataType::kFloat;
  IndexTuples tuples;
  StridedCopy base;  // for elements of one byte; rank 0 for none
  int64_t count = 0;
  int64_t row_elems = 1;
};

// One kernel; `out` has the data already. Sums and products of floats depend on the order and are rounded to their type
// at each update. kNotSupported for reductions of elements of one byte, which no atomic instruction has.
Status LaunchScatter(const Scatter& scatter, const void* updates, void* out, device::Stream stream);

// The same bits each time: updates are sorted by their rows, and combined in their order in fp32 for 16-bit floats.
struct ScatterSorted {
  Scatter scatter;
  RowSort sort;

  size_t scratch_bytes() const {
    return 2 * static_cast<size_t>(scatter.count) * sizeof(int64_t) + sort.scratch_bytes();
  }
};
ScatterSorted PlanScatterSorted(const Scatter& scatter);
Status LaunchScatterSorted(const ScatterSorted& plan, const Scatter& scatter, const void* updates, void* out,
                           void* scratch, device::Stream stream);

}  // namespace cudaep::kernels
