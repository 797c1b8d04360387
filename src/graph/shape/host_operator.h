// Shape arithmetic on the host: what a compiled region computes from dimensions before it launches anything, as in
// Shape -> Gather -> Concat -> Reshape.
//
// Offered are the operators that exporters build shapes with, for int64, int32, bool, float and double, in every
// version that exists since opset 7. Dimensions follow from the operators' own
// InferShapes where there is one, so that both sides agree.
//
// Values: integers wrap, but a quotient that does not exist (x / 0, lowest / -1) is an error; floats that an integer
// type cannot hold saturate and NaN becomes 0; NaN propagates through Min and Max; sums and products of floats are
// accumulated in double.
// Threads: immutable after creation; any number of threads at once. No device is touched.
#pragma once

#include <memory>
#include <vector>

#include "ops/op_info.h"

namespace cudaep::graph {

// Elements of one result; more is an error of Evaluate.
inline constexpr int64_t kMaxHostElems = 4096;

class HostOperator {
 public:
  virtual ~HostOperator() = default;

  // One value for each output of the node, used or not. Inputs are those of the node: absent ones are kUndefined, the
  // others have the types of creation and their data in host memory (null where ReadsDimsOnly or without elements).
  // kInvalidArgument for shapes and values that the operator does not take, naming the node; `outputs` is unspecified
  // then. Inputs of any size are read; nothing of them is kept.
  virtual Status Evaluate(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const = 0;
};

// Reads attributes once; `info` may go away afterwards. kNotSupported names what is not offered: operator, version,
// attribute or type. What is wrong with the node itself is kInvalidArgument.
Result<std::unique_ptr<HostOperator>> MakeHostOperator(const ops::OpInfo& info);

// Whether the operator looks at nothing of its input but type and dimensions: Shape and Size.
bool ReadsDimsOnly(const ops::OpInfo& info);

// Whether a result's size follows from the values of the operator's inputs, so that it may be no shape arithmetic at
// all: Range, ConstantOfShape, Expand and Tile.
bool GrowsWithValues(const ops::OpInfo& info);

}  // namespace cudaep::graph
