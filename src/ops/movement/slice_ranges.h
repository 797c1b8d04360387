// What Slice takes of each dimension: attributes before version 10, inputs in host memory from then on.
#pragma once

#include <optional>
#include <vector>

#include "ops/op_info.h"

namespace cudaep::ops {

// What is taken of one dimension.
struct SliceRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

// Of a dimension, by ONNX's rule; `step` is not 0.
SliceRange SliceRangeOf(int64_t dim, int64_t start, int64_t end, int64_t step);

class SliceBounds {
 public:
  explicit SliceBounds(const OpInfo& info);

  // One range for each dimension of input 0.
  Result<std::vector<SliceRange>> Read(TensorViews inputs) const;

 private:
  struct Attributes {
    std::vector<int64_t> starts, ends;
    std::optional<std::vector<int64_t>> axes;
  };
  std::optional<Attributes> attributes_;
};

// Makes the input's strides those of the result, and gives the offset of its first element.
int64_t ApplyRanges(const std::vector<SliceRange>& ranges, Shape& strides);

}  // namespace cudaep::ops
