// The C++ storage type of each element type, and the switch from a run-time type to it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/data_type.h"
#include "core/float16.h"

namespace cudaep {

template <DataType>
struct CppTypeOf;
template <>
struct CppTypeOf<DataType::kFloat> {
  using Type = float;
};
template <>
struct CppTypeOf<DataType::kDouble> {
  using Type = double;
};
template <>
struct CppTypeOf<DataType::kFloat16> {
  using Type = Half;
};
template <>
struct CppTypeOf<DataType::kBFloat16> {
  using Type = BFloat16;
};
template <>
struct CppTypeOf<DataType::kInt8> {
  using Type = int8_t;
};
template <>
struct CppTypeOf<DataType::kInt16> {
  using Type = int16_t;
};
template <>
struct CppTypeOf<DataType::kInt32> {
  using Type = int32_t;
};
template <>
struct CppTypeOf<DataType::kInt64> {
  using Type = int64_t;
};
template <>
struct CppTypeOf<DataType::kUint8> {
  using Type = uint8_t;
};
template <>
struct CppTypeOf<DataType::kUint16> {
  using Type = uint16_t;
};
template <>
struct CppTypeOf<DataType::kUint32> {
  using Type = uint32_t;
};
template <>
struct CppTypeOf<DataType::kUint64> {
  using Type = uint64_t;
};
template <>
struct CppTypeOf<DataType::kBool> {
  using Type = bool;
};

template <DataType type>
using CppType = typename CppTypeOf<type>::Type;

namespace detail {
template <DataType...>
struct DataTypes {};
using VisitedTypes = DataTypes<DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBFloat16,
                               DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64, DataType::kUint8,
                               DataType::kUint16, DataType::kUint32, DataType::kUint64, DataType::kBool>;
}  // namespace detail

// Calls `visit.operator()<T>()` with the C++ type of `type` when `types` holds it; `otherwise` is returned if not.
// Only the types in the set are instantiated, so the set is the compile budget of the kernel behind it.
template <DataTypeSet types, class R, class Visitor>
R VisitType(DataType type, R otherwise, Visitor&& visit) {
  R result = otherwise;  // NOLINT(performance-unnecessary-value-param): R is small
  const auto attempt = [&]<DataType candidate>() {
    if constexpr (types.Contains(candidate)) {
      if (type == candidate) static_cast<void>(result = visit.template operator()<CppType<candidate>>());
    }
  };
  [&]<DataType... all>(detail::DataTypes<all...>) {
    static_assert((types - DataTypeSet{all...}).empty(), "a type of the set has no C++ type here");
    (attempt.template operator()<all>(), ...);
  }
  (detail::VisitedTypes{});
  return result;
}

}  // namespace cudaep
