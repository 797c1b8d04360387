// Element types, numbered as in ONNX TensorProto.DataType.
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
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};
inline constexpr int kDataTypeCount = 27;

// Bits of one element; 0 for types without a fixed size (undefined, string).
int BitsOf(DataType type);
// Bytes of one element; 0 for types without a fixed size and for those that share a byte (2 and 4 bits).
size_t SizeOf(DataType type);
// Bytes of `elems` elements, those of 2 and 4 bits packed from the lowest bits of a byte on; 0 without a fixed size.
size_t StorageBytes(DataType type, int64_t elems);

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
inline constexpr DataTypeSet kInt8Types{DataType::kInt8, DataType::kUint8};
inline constexpr DataTypeSet kSignedIntTypes{DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64};
inline constexpr DataTypeSet kUnsignedIntTypes{DataType::kUint8, DataType::kUint16, DataType::kUint32,
                                               DataType::kUint64};
inline constexpr DataTypeSet kIntTypes = kSignedIntTypes | kUnsignedIntTypes;
inline constexpr DataTypeSet kNumericTypes = kFloatTypes | kIntTypes;
inline constexpr DataTypeSet kIndexTypes{DataType::kInt32, DataType::kInt64};
inline constexpr DataTypeSet kFloat8Types{DataType::kFloat8E4M3FN, DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2,
                                          DataType::kFloat8E5M2FNUZ};
// Several elements share a byte.
inline constexpr DataTypeSet kSubByteTypes{DataType::kUint4, DataType::kInt4, DataType::kFloat4E2M1, DataType::kUint2,
                                           DataType::kInt2};
// What data movement can carry: everything of fixed size (complex included), and the same with the 8-bit floats that
// only some operators of ONNX take.
inline constexpr DataTypeSet kFixedSizeTypes =
    kNumericTypes | DataTypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};
inline constexpr DataTypeSet kAnySizedTypes = kFixedSizeTypes | kFloat8Types;

}  // namespace cudaep
