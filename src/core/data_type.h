// Element types, numbered as in ONNX TensorProto.DataType (and therefore as the host's ONNXTensorElementDataType).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace cudaep {

enum class DataType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
};
inline constexpr int kDataTypeCount = 21;

// Bytes of one element; 0 for types without a fixed size (undefined, string).
size_t SizeOf(DataType type);

// Lower-case ONNX name, e.g. "float16"; "undefined" for values outside the enumeration.
std::string_view DataTypeName(DataType type);

// A set of element types, one bit each. Its member is public so that a set can be a template argument.
struct DataTypeSet {
  uint32_t bits = 0;

  constexpr DataTypeSet() = default;
  constexpr DataTypeSet(DataType type) : bits(1u << static_cast<int>(type)) {}  // NOLINT(google-explicit-constructor)
  constexpr DataTypeSet(std::initializer_list<DataType> types) {
    for (DataType type : types) bits |= 1u << static_cast<int>(type);
  }
  constexpr bool Contains(DataType type) const { return (bits >> static_cast<int>(type)) & 1u; }
  constexpr bool empty() const { return bits == 0; }
  constexpr DataTypeSet operator|(DataTypeSet other) const { return FromBits(bits | other.bits); }
  constexpr DataTypeSet operator-(DataTypeSet other) const { return FromBits(bits & ~other.bits); }
  constexpr bool operator==(const DataTypeSet&) const = default;

 private:
  static constexpr DataTypeSet FromBits(uint32_t bits) {
    DataTypeSet set;
    set.bits = bits;
    return set;
  }
};

// The groups that operator rows are written in.
inline constexpr DataTypeSet kFloat16Types{DataType::kFloat16, DataType::kBFloat16};
inline constexpr DataTypeSet kFloatTypes = kFloat16Types | DataTypeSet{DataType::kFloat, DataType::kDouble};
inline constexpr DataTypeSet kFloatTypesNoDouble = kFloat16Types | DataTypeSet(DataType::kFloat);
inline constexpr DataTypeSet kSignedIntTypes{DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64};
inline constexpr DataTypeSet kUnsignedIntTypes{DataType::kUint8, DataType::kUint16, DataType::kUint32,
                                               DataType::kUint64};
inline constexpr DataTypeSet kIntTypes = kSignedIntTypes | kUnsignedIntTypes;
inline constexpr DataTypeSet kNumericTypes = kFloatTypes | kIntTypes;
inline constexpr DataTypeSet kIndexTypes{DataType::kInt32, DataType::kInt64};
inline constexpr DataTypeSet kFloat8Types{DataType::kFloat8E4M3FN, DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2,
                                          DataType::kFloat8E5M2FNUZ};
// What data movement can carry: everything of fixed size (complex included), and the same with the 8-bit floats that
// only some operators of ONNX take.
inline constexpr DataTypeSet kFixedSizeTypes =
    kNumericTypes | DataTypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};
inline constexpr DataTypeSet kAnySizedTypes = kFixedSizeTypes | kFloat8Types;

}  // namespace cudaep
