// Operators of several tensors with numpy broadcasting: of two, Min and Max of any number, Where.
#include <cmath>
#include <cstring>
#include <utility>

#include "graph/shape/evaluation.h"
#include "kernels/movement/strided_copy.h"

namespace cudaep::graph {
namespace {

// A functor may have a Problem(a, b): what is wrong with operands that it must not be called with, or null.

struct Sub {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

// Integers are divided towards zero.
struct Div {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  const char* Problem(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return nullptr;
    if (b == T(0)) return "division by zero";
    return b == T(-1) && a == std::numeric_limits<T>::lowest() ? "a quotient beyond the type's range" : nullptr;
  }
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};

// With the sign of the dividend, as C's % and fmod.
struct TruncatedMod {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  const char* Problem(T, T b) const {
    return std::is_integral_v<T> && b == T(0) ? "division by zero" : nullptr;
  }
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      return b == T(-1) ? T(0) : a % b;  // lowest % -1 would trap
    }
  }
};

// With the sign of the divisor, as Python's %.
struct FlooredMod {
  static constexpr DataTypeSet kTypes = kHostNumbers;
  template <class T>
  const char* Problem(T a, T b) const {
    return TruncatedMod{}.Problem(a, b);
  }
  template <class T>
  T operator()(T a, T b) const {
    const T rest = TruncatedMod{}(a, b);
    if (rest != T(0)) return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
    if constexpr (std::is_floating_point_v<T>) return std::copysign(rest, b);
    return rest;
  }
};

// E is int64_t, between integers alone, or double.
struct Pow {
  template <class T, class E>
  T operator()(T base, E exponent) const {
    if constexpr (std::is_integral_v<E>) {
      return IntegerPower(base, exponent);
    } else {
      return ConvertTo<T>(std::pow(static_cast<double>(base), exponent));
    }
  }

 private:
  // Wraps; a negative exponent gives 1 / x^n rounded towards zero, 0 for x = 0.
  template <class T>
  static T IntegerPower(T base, int64_t exponent) {
    const bool odd = exponent % 2 != 0;
    if (exponent < 0) return base == T(1) ? T(1) : base != T(-1) ? T(0) : odd ? T(-1) : T(1);
    Wrapping<T> result = 1, square = static_cast<Wrapping<T>>(base);
    for (int64_t rest = exponent; rest != 0; rest /= 2) {
      if (rest % 2 != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
};

// Comparisons and logic: std's function objects are the operators.
template <class F, bool kEquality = false>
struct Comparison : F {
  static constexpr DataTypeSet kTypes = kEquality ? kHostTypes : kHostNumbers;
};
template <class F>
struct Logic : F {
  static constexpr DataTypeSet kTypes = DataType::kBool;
};

// y has `dims`; strides are those of a and b in it. y may be a.
using Function = Status (*)(const void* a, const void* b, void* y, Dims dims, const std::array<Shape, 2>& strides);

template <class F, class A, class B>
Status Apply(const void* a, const void* b, void* y, Dims dims, const std::array<Shape, 2>& strides) {
  const auto* const left = static_cast<const A*>(a);
  const auto* const right = static_cast<const B*>(b);
  auto* const out = static_cast<std::invoke_result_t<F, A, B>*>(y);
  Status status;
  Walk<2>(dims, strides, {0, 0}, [&](int64_t i, const std::array<int64_t, 2>& at) {
    if constexpr (requires { F{}.Problem(left[0], right[0]); }) {
      if (const char* const problem = F{}.Problem(left[at[0]], right[at[1]])) {
        if (status.ok()) status = InvalidArgument(problem, " in element ", i, " of shape ", dims);
        return;
      }
    }
    out[i] = F{}(left[at[0]], right[at[1]]);
  });
  return status;
}

class Broadcasting : public CheckedOperator {
 protected:
  using CheckedOperator::CheckedOperator;

  Status InferShapes(ops::TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0].Assign(inputs[0].dims());
    for (const ops::TensorView& input : inputs.subspan(1)) {
      CUDAEP_ASSIGN_OR_RETURN(outputs[0], BroadcastShapes(outputs[0], input.dims()));
    }
    return Status::Ok();
  }
};

class Binary final : public Broadcasting {
 public:
  // The exponent of Pow is converted to `right` first; other operators have two operands of one type.
  Binary(const ops::OpInfo& info, Function function, DataType output, DataType right)
      : Broadcasting(info, output), function_(function), right_(right) {}

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    ops::HostTensor& y = outputs[0];
    const void* b = inputs[1].data;
    std::vector<std::byte> converted;
    if (inputs[1].type != right_) {
      converted.resize(static_cast<size_t>(inputs[1].elems()) * SizeOf(right_));
      ConvertElements(inputs[1].type, right_, b, converted.data(), inputs[1].elems());
      b = converted.data();
    }
    return function_(inputs[0].data, b, y.data.data(), y.dims,
                     {BroadcastStrides(inputs[0].dims(), y.dims), BroadcastStrides(inputs[1].dims(), y.dims)});
  }

  Function function_;
  DataType right_;
};

// Min and Max: from the first to the last input, in the output.
class Variadic final : public Broadcasting {
 public:
  Variadic(const ops::OpInfo& info, Function function) : Broadcasting(info, info.input_type(0)), function_(function) {}

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    ops::HostTensor& y = outputs[0];
    const Shape own = ContiguousStrides(y.dims);
    const void* first = inputs[0].data;
    Shape strides = BroadcastStrides(inputs[0].dims(), y.dims);
    for (const ops::TensorView& input : inputs.size() > 1 ? inputs.subspan(1) : inputs) {
      CUDAEP_RETURN_IF_ERROR(
          function_(first, input.data, y.data.data(), y.dims, {strides, BroadcastStrides(input.dims(), y.dims)}));
      first = y.data.data();
      strides = own;
    }
    return Status::Ok();
  }

  Function function_;
};

class Where final : public Broadcasting {
 public:
  explicit Where(const ops::OpInfo& info) : Broadcasting(info, info.input_type(1)) {}

 private:
  Status Compute(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const override {
    ops::HostTensor& y = outputs[0];
    const size_t size = SizeOf(y.type);
    const bool* const condition = inputs[0].host<bool>().data();
    std::array<Shape, 3> strides;
    for (size_t k = 0; k < 3; ++k) strides[k] = BroadcastStrides(inputs[k].dims(), y.dims);
    Walk<3>(y.dims, strides, {0, 0, 0}, [&](int64_t i, const std::array<int64_t, 3>& at) {
      const size_t chosen = condition[at[0]] ? 1 : 2;
      std::memcpy(y.data.data() + static_cast<size_t>(i) * size,
                  static_cast<const std::byte*>(inputs[chosen].data) + static_cast<size_t>(at[chosen]) * size, size);
    });
    return Status::Ok();
  }
};

// Inputs from `first` on must be present and of one type, for which `function` is not null.
Status CheckOperands(const ops::OpInfo& info, int first, bool offered) {
  const DataType type = info.input_type(first);
  for (int i = first; i < info.input_count(); ++i) {
    if (!info.has_input(i)) return InvalidArgument(info.op_type(), " has no input ", i);
    if (info.input_type(i) != type) {
      return InvalidArgument(info.op_type(), " of ", DataTypeName(type), " and ", DataTypeName(info.input_type(i)));
    }
  }
  return offered ? Status::Ok() : NotSupported(info.op_type(), " has no element type ", DataTypeName(type));
}

template <class F>
Function Find(DataType type) {
  return VisitType<F::kTypes, Function>(type, nullptr, []<class T>() -> Function { return &Apply<F, T, T>; });
}

template <class F>
Result<HostOperatorPtr> MakeBinary(const ops::OpInfo& info) {
  const DataType type = info.input_type(0);
  const Function function = Find<F>(type);
  CUDAEP_RETURN_IF_ERROR(CheckOperands(info, 0, function != nullptr));
  const bool to_bool = std::is_same_v<std::invoke_result_t<F, int, int>, bool>;
  return HostOperatorPtr(std::make_unique<Binary>(info, function, to_bool ? DataType::kBool : type, type));
}

template <class F>
Result<HostOperatorPtr> MakeVariadic(const ops::OpInfo& info) {
  const Function function = Find<F>(info.input_type(0));
  CUDAEP_RETURN_IF_ERROR(CheckOperands(info, 0, function != nullptr));
  return HostOperatorPtr(std::make_unique<Variadic>(info, function));
}

Result<HostOperatorPtr> MakeMod(const ops::OpInfo& info) {
  if (info.BoolOr("fmod", false)) return MakeBinary<TruncatedMod>(info);
  // Up to version 13 the attribute decides between integers and floats.
  if (info.since_version() <= 13 && kHostFloats.Contains(info.input_type(0))) {
    return NotSupported("Mod-", info.since_version(), " of floats without fmod=1");
  }
  return MakeBinary<FlooredMod>(info);
}

Result<HostOperatorPtr> MakePow(const ops::OpInfo& info) {
  const DataType base = info.input_type(0), given = info.input_type(1);
  if (!kHostNumbers.Contains(base) || !kHostNumbers.Contains(given)) {
    return NotSupported("Pow has no element types ", DataTypeName(base), " and ", DataTypeName(given));
  }
  const bool integers = kIndexTypes.Contains(base) && kIndexTypes.Contains(given);
  const Function function = VisitType<kHostNumbers, Function>(base, nullptr, [&]<class T>() -> Function {
    if constexpr (std::is_integral_v<T>) {
      if (integers) return &Apply<Pow, T, int64_t>;
    }
    return &Apply<Pow, T, double>;
  });
  return HostOperatorPtr(
      std::make_unique<Binary>(info, function, base, integers ? DataType::kInt64 : DataType::kDouble));
}

Result<HostOperatorPtr> MakeWhere(const ops::OpInfo& info) {
  CUDAEP_RETURN_IF_ERROR(CheckOperands(info, 1, true));
  if (info.input_type(0) != DataType::kBool) return InvalidArgument("the condition of Where is no bool");
  return HostOperatorPtr(std::make_unique<Where>(info));
}

}  // namespace

HostEntries BinaryEntries() {
  static constexpr HostEntry kEntries[] = {
      {"Add", 7, 14, 2, MakeBinary<Add>},
      {"And", 7, 7, 2, MakeBinary<Logic<std::logical_and<>>>},
      {"Div", 7, 14, 2, MakeBinary<Div>},
      {"Equal", 7, 19, 2, MakeBinary<Comparison<std::equal_to<>, true>>},
      {"Greater", 7, 13, 2, MakeBinary<Comparison<std::greater<>>>},
      {"GreaterOrEqual", 12, 16, 2, MakeBinary<Comparison<std::greater_equal<>>>},
      {"Less", 7, 13, 2, MakeBinary<Comparison<std::less<>>>},
      {"LessOrEqual", 12, 16, 2, MakeBinary<Comparison<std::less_equal<>>>},
      {"Max", 6, 13, 1, MakeVariadic<Max>},
      {"Min", 6, 13, 1, MakeVariadic<Min>},
      {"Mod", 10, 28, 2, MakeMod},
      {"Mul", 7, 14, 2, MakeBinary<Mul>},
      {"Or", 7, 7, 2, MakeBinary<Logic<std::logical_or<>>>},
      {"Pow", 7, 15, 2, MakePow},
      {"Sub", 7, 14, 2, MakeBinary<Sub>},
      {"Where", 9, 16, 3, MakeWhere},
  };
  return kEntries;
}

}  // namespace cudaep::graph
