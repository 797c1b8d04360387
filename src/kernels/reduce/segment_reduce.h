// Segments of rows, reduced one by one: bags of embeddings where the rows are those of a table.
#pragma once

#include "core/data_type.h"
#include "kernels/movement/gather.h"

namespace cudaep::kernels {

enum class SegmentReduction : uint8_t { kSum, kMean, kMax };

// Segment b is what Slice takes of a list of `length` from starts[b] to ends[b]: negative positions count from its end,
// those beyond are cut. Its elements are rows, or the rows that indices[.] name. A negative index counts from the end,
// and one outside of the table gives zeros, as kernels/movement/gather.h.
struct SegmentReduceArgs {
  DataType type = DataType::kUndefined;  // of kFloatTypesNoDouble: rows, weights and y
  SegmentReduction reduction = SegmentReduction::kSum;
  const void* rows = nullptr;  // [row_count, width]
  int64_t row_count = 0, width = 0;
  GatherIndices indices = {};                  // null: the rows themselves
  const void* weights = nullptr;               // what each row is multiplied with, or null
  bool one_index = false, one_weight = false;  // for the whole list
  int64_t length = 0;
  GatherIndices starts = {}, ends = {};
  int64_t segments = 0;
  int64_t tail_segment = -1, tail = 0;  // where this segment ends is no element of `ends`
  bool empty_is_zero = false;  // where start equals end; max of nothing is minus infinity otherwise, sum and mean are 0
  // The mean of the last segment is its sum over as much as a list of this length has behind its start; -1: no.
  int64_t counted = -1;
  void* y = nullptr;  // [segments, width]
};

// Sums in fp32, row after row, and rounds once: the same bits each time. NaN wins over any maximum. One launch.
Status LaunchSegmentReduce(const SegmentReduceArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
