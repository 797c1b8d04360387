// Inputs of the operator SegmentReduce of kFusedDomain, which compiled regions make of Loops over bags.
#pragma once

namespace cudaep::ops {

enum SegmentInput : int {
  kSegmentRows,       // [rows, width]; with indices the table that they name rows of
  kSegmentStarts,     // of each segment
  kSegmentEnds,       // absent: each segment ends where the next one starts
  kSegmentCount,      // of segments; in host memory
  kSegmentCondition,  // false: none; true: one at least; in host memory
  kSegmentCounted,    // the mean of the last segment is over what this list has behind its start
  kSegmentIndices,    // of the rows; segments are of these then
  kSegmentWeights,    // of the indices
  kSegmentTail,       // one element that stands behind the starts, as the last end; in host memory
};

}  // namespace cudaep::ops
