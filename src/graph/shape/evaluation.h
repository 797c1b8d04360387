// What the host operators share: the steps of each evaluation, and the walk over broadcast and strided tensors.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>

#include "core/data_type_traits.h"
#include "graph/shape/host_operator.h"
#include "ops/operator.h"

namespace cudaep::graph {

inline constexpr DataTypeSet kHostTypes{DataType::kBool, DataType::kInt32, DataType::kInt64, DataType::kFloat,
                                        DataType::kDouble};
inline constexpr DataTypeSet kHostNumbers = kHostTypes - DataTypeSet(DataType::kBool);
inline constexpr DataTypeSet kHostFloats{DataType::kFloat, DataType::kDouble};

// Checks what it is given, makes room for the results and leaves their shapes and values to a derived class.
class CheckedOperator : public HostOperator {
 public:
  Status Evaluate(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const final;

 protected:
  // All outputs have one type.
  CheckedOperator(const ops::OpInfo& info, DataType output_type);

  // `outputs` has an entry for each output.
  virtual Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const = 0;
  // Fills outputs, at least one of which has elements.
  virtual Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const = 0;

 private:
  Status Run(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const;
  Status CheckInput(const ops::TensorView& input, size_t index) const;

  std::string label_;
  bool dims_only_;
  std::vector<DataType> input_types_;
  size_t output_count_;
  DataType output_type_;
};

using HostOperatorPtr = std::unique_ptr<HostOperator>;

// An operator in a range of schema versions. Others are refused: what a later one changes is not known.
struct HostEntry {
  const char* op;
  int since, until;
  int inputs;  // those that every node has
  Result<HostOperatorPtr> (*make)(const ops::OpInfo& info);
};
using HostEntries = std::span<const HostEntry>;

HostEntries BinaryEntries();     // with Min, Max and Where
HostEntries GeneratorEntries();  // Shape, Size, ConstantOfShape, Range
HostEntries MovementEntries();
HostEntries ReductionEntries();
HostEntries UnaryEntries();  // with Cast

// The operator of ops/ for the node, whose InferShapes then says how large results are.
Result<ops::OperatorPtr> MakeShapeRule(const ops::OpInfo& info);

// `elems` elements of one of kHostTypes to another.
void ConvertElements(DataType from, DataType to, const void* x, void* y, int64_t elems);
// Rounded towards zero and saturated for integers; NaN becomes 0, or true.
template <class To, class From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The largest integer may not be a float; its successor, a power of two, always is.
    constexpr From kEnd = -static_cast<From>(std::numeric_limits<To>::min());
    if (x >= kEnd) return std::numeric_limits<To>::max();
    if (x > -kEnd) return static_cast<To>(x);
    return x == x ? std::numeric_limits<To>::min() : To(0);
  } else {
    return static_cast<To>(x);
  }
}

// Strides in elements of a contiguous tensor that is broadcast to `output`: 0 along what is repeated.
Shape BroadcastStrides(Dims dims, Dims output);

// Calls visit(i, offsets) for the elements of a tensor of `dims` in order; a step along dimension d moves offsets[k] by
// strides[k][d].
template <size_t kTensors, class Visit>
void Walk(Dims dims, const std::array<Shape, kTensors>& strides, std::array<int64_t, kTensors> offsets, Visit&& visit) {
  const auto rank = static_cast<int>(dims.size());
  const int64_t elems = ElementCount(dims);
  Shape at(rank, 0);
  for (int64_t i = 0; i < elems; ++i) {
    visit(i, offsets);
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t dim = dims[static_cast<size_t>(d)];
      const bool carries = ++at[d] == dim;
      for (size_t k = 0; k < kTensors; ++k) offsets[k] += strides[k][d] * (carries ? 1 - dim : 1);
      if (!carries) break;
      at[d] = 0;
    }
  }
}

// The type that T's arithmetic wraps in: unsigned for integers.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

struct Add {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
struct Mul {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
struct Min {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct Max {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

}  // namespace cudaep::graph
