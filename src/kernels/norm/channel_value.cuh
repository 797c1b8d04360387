// Scale, shift and statistics of channels, of any floating point type.
#pragma once

#include "core/data_type_traits.h"
#include "device/launch.h"

namespace cudaep::kernels {

// Values of channels, in whatever type the model keeps them: read once for each pack, so the switch costs nothing.
template <class C>
__device__ __forceinline__ C ChannelValue(const void* values, DataType type, int64_t channel) {
  switch (type) {
    case DataType::kFloat16:
      return static_cast<C>(Load(static_cast<const Half*>(values)[channel]));
    case DataType::kBFloat16:
      return static_cast<C>(Load(static_cast<const BFloat16*>(values)[channel]));
    case DataType::kDouble:
      return static_cast<C>(static_cast<const double*>(values)[channel]);
    default:
      return static_cast<C>(static_cast<const float*>(values)[channel]);
  }
}

}  // namespace cudaep::kernels
