// What an operator sees of a tensor: data, type and dimensions, none of them owned.
#pragma once

#include <cstdint>
#include <span>

#include "core/data_type.h"
#include "core/shape.h"

namespace cudaep::ops {

// Dimensions point into memory of the host, of a region's plan or of a test, and live as long as the call.
// `data` is a device pointer, or a host pointer for inputs the operator's row puts in host memory.
// An optional input that is absent has type kUndefined. A packed input has the dimensions and type of the weight that
// the operator packed, and `data` is the packed form (Operator::Pack).
struct TensorView {
  const void* data = nullptr;
  const int64_t* dim = nullptr;
  int32_t rank = 0;
  DataType type = DataType::kUndefined;
  bool packed = false;

  bool present() const { return type != DataType::kUndefined; }
  Dims dims() const { return Dims(dim, static_cast<size_t>(rank)); }
  int64_t elems() const { return ElementCount(dims()); }
  size_t bytes() const { return StorageBytes(type, elems()); }

  // The elements of a tensor in host memory.
  template <class T>
  std::span<const T> host() const {
    return {static_cast<const T*>(data), static_cast<size_t>(elems())};
  }
};

using TensorViews = std::span<const TensorView>;

}  // namespace cudaep::ops
