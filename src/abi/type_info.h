// Element types out of the host's type descriptions.
#pragma once

#include "abi/host.h"
#include "core/data_type.h"

namespace cudaep::abi {

// The numbers are ONNX's on both sides; types newer than the project's list become kUndefined.
DataType ToDataType(ONNXTensorElementDataType type);

// kUndefined for anything that is not a tensor.
DataType ElementTypeOf(const OrtTypeInfo* info);

}  // namespace cudaep::abi
