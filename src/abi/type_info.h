// Kinds, element types and dimensions out of the host's type descriptions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "abi/host.h"
#include "core/data_type.h"
#include "core/shape.h"
#include "ops/op_info.h"

namespace cudaep::abi {

// The host numbers its newest types unlike ONNX. Types that one side does not know become undefined.
DataType ToDataType(ONNXTensorElementDataType type);
ONNXTensorElementDataType ToHostType(DataType type);

// What a node's input or output is, as the model states it.
struct ValueType {
  ops::ValueKind kind = ops::ValueKind::kAbsent;
  DataType element = DataType::kUndefined;  // of a tensor
  std::optional<Shape> dims;                // of a tensor; absent without a known rank, kUnknownDim where not stated
};

// A null `info` is an absent value.
ValueType ReadValueType(const OrtTypeInfo* info);

// For each dimension of a tensor the name that the model gives it; empty for one without.
std::vector<std::string> ReadDimNames(const OrtTypeInfo* info);

// The host's tensor in host memory, copied.
std::optional<ops::HostTensor> CopyHostTensor(const OrtValue* value);

}  // namespace cudaep::abi
