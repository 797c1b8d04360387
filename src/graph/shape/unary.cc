// Operators of one tensor, element by element, and Cast.
#include <cmath>
#include <utility>

#include "graph/shape/evaluation.h"

namespace cudaep::graph {
namespace {

struct Abs {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    return x < T(0) ? static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x)) : x;
  }
};
struct Neg {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return static_cast<T>(Wrapping<T>(0) - static_cast<Wrapping<T>>(x));
  }
};
struct Sign {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T x) const {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
  }
};
struct Sqrt {
  static constexpr DataTypeSet kTypes = kHostFloats;
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Floor {
  static constexpr DataTypeSet kTypes = kHostFloats;
  template <class T>
  T operator()(T x) const {
    return std::floor(x);
  }
};
struct Ceil {
  static constexpr DataTypeSet kTypes = kHostFloats;
  template <class T>
  T operator()(T x) const {
    return std::ceil(x);
  }
};
// Halves go to the even integer.
struct Round {
  static constexpr DataTypeSet kTypes = kHostFloats;
  template <class T>
  T operator()(T x) const {
    return std::rint(x);
  }
};
struct Not {
  static constexpr DataTypeSet kTypes = DataType::kBool;
  template <class T>
  T operator()(T x) const {
    return !x;
  }
};
template <class To>
struct Conversion {
  template <class From>
  To operator()(From x) const {
    return ConvertTo<To>(x);
  }
};

using Function = void (*)(const void* x, void* y, int64_t elems);

template <class F, class T>
void Apply(const void* x, void* y, int64_t elems) {
  const auto* const from = static_cast<const T*>(x);
  auto* const to = static_cast<std::invoke_result_t<F, T>*>(y);
  for (int64_t i = 0; i < elems; ++i) to[i] = F{}(from[i]);
}

Function FindConversion(DataType from, DataType to) {
  return VisitType<kHostTypes, Function>(to, nullptr, [&]<class To>() {
    return VisitType<kHostTypes, Function>(from, nullptr, []<class From>() { return &Apply<Conversion<To>, From>; });
  });
}

class Unary final : public CheckedOperator {
 public:
  Unary(const ops::OpInfo& info, Function function, DataType to) : CheckedOperator(info, to), function_(function) {}

 private:
  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    function_(inputs[0].data, outputs[0].data.data(), inputs[0].elems());
    return Status::Ok();
  }

  Function function_;
};

template <class F>
Result<HostOperatorPtr> Make(const ops::OpInfo& info) {
  const DataType type = info.input_type(0);
  const Function function =
      VisitType<F::kTypes, Function>(type, nullptr, []<class T>() -> Function { return &Apply<F, T>; });
  if (function == nullptr) return NotSupported(info.op_type(), " has no element type ", DataTypeName(type));
  return HostOperatorPtr(std::make_unique<Unary>(info, function, type));
}

// `saturate` and `round_mode` are for 8-bit floats.
Result<HostOperatorPtr> MakeCast(const ops::OpInfo& info) {
  const std::optional<int64_t> to = info.Int("to");
  if (!to) return InvalidArgument("Cast has no attribute to");
  if (*to < 0 || *to >= kDataTypeCount || !kHostTypes.Contains(static_cast<DataType>(*to))) {
    return NotSupported("Cast to element type ", DataTypeName(static_cast<DataType>(*to)),
                        " is not evaluated on the host");
  }
  const auto type = static_cast<DataType>(*to);
  return HostOperatorPtr(std::make_unique<Unary>(info, FindConversion(info.input_type(0), type), type));
}

}  // namespace

void ConvertElements(DataType from, DataType to, const void* x, void* y, int64_t elems) {
  FindConversion(from, to)(x, y, elems);
}

HostEntries UnaryEntries() {
  static constexpr HostEntry kEntries[] = {
      {"Abs", 6, 13, 1, Make<Abs>},      {"Cast", 6, 28, 1, MakeCast},   {"Ceil", 6, 13, 1, Make<Ceil>},
      {"Floor", 6, 13, 1, Make<Floor>},  {"Neg", 6, 13, 1, Make<Neg>},   {"Not", 1, 1, 1, Make<Not>},
      {"Round", 11, 22, 1, Make<Round>}, {"Sign", 9, 13, 1, Make<Sign>}, {"Sqrt", 6, 13, 1, Make<Sqrt>},
  };
  return kEntries;
}

}  // namespace cudaep::graph
