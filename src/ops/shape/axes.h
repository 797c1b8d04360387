// The axes of Squeeze and Unsqueeze: an attribute before version 13, an input in host memory from then on.
#pragma once

#include <optional>
#include <vector>

#include "ops/op_info.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {

class Axes {
 public:
  Axes() = default;
  explicit Axes(const OpInfo& info) : attribute_(info.since_version() < 13 ? info.Ints("axes") : std::nullopt) {}

  // As written in the model; absent when the node names none.
  Result<std::optional<std::vector<int64_t>>> Read(TensorViews inputs) const {
    if (inputs.size() < 2 || !inputs[1].present()) return attribute_;
    CUDAEP_ASSIGN_OR_RETURN(std::vector<int64_t> values, HostInts(inputs[1], "axes"));
    return std::optional(std::move(values));
  }

 private:
  std::optional<std::vector<int64_t>> attribute_;
};

// Which of `rank` dimensions the axes name. An axis named twice is an error unless `repeats`.
inline Result<std::vector<bool>> MarkAxes(const std::vector<int64_t>& axes, int rank, bool repeats) {
  std::vector<bool> marked(static_cast<size_t>(rank), false);
  for (int64_t value : axes) {
    CUDAEP_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(value, rank));
    if (marked[static_cast<size_t>(axis)] && !repeats) return InvalidArgument("axis ", value, " is named twice");
    marked[static_cast<size_t>(axis)] = true;
  }
  return marked;
}

}  // namespace cudaep::ops
