// Einsum's equation: text to terms at creation, terms to labels with sizes once there are shapes. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "core/shape.h"
#include "core/status.h"
#include "ops/tensor_view.h"

namespace cudaep::ops {

// A term lists one label for each dimension: a letter's number, or kEllipsis for any number of dimensions at once.
struct EinsumEquation {
  static constexpr int kEllipsis = -1;
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
};

// Without "->" the output is the ellipsis and the letters that occur once, in the order of their codes.
Result<EinsumEquation> ParseEquation(std::string_view text);

// What has more dimensions than a reduction or a product of two tensors can have, neighbours of one kind being one. Of
// more than two inputs the order in which they meet depends on sizes, and Run is the first to know.
Status CheckRanks(const EinsumEquation& equation);

// The same for inputs of known shapes: an ellipsis has become labels of its own, aligned at its last dimension.
struct EinsumLabels {
  std::vector<int64_t> size;             // of every label; 0 also for a label that occurs nowhere
  std::vector<std::vector<int>> inputs;  // one label for each dimension
  std::vector<int> output;

  Shape OutputShape() const;
};

// A dimension of 1 broadcasts against another size of its label, but not along a diagonal.
Result<EinsumLabels> ResolveEquation(const EinsumEquation& equation, TensorViews inputs);

}  // namespace cudaep::ops
