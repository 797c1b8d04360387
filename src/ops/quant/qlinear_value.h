// Scale and zero point of a tensor, read from inputs in host memory.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/tensor_view.h"

namespace cudaep::ops {

struct QLinearValue {
  float scale = 1;
  int32_t zero = 0;

  float Real(int32_t code) const { return scale * static_cast<float>(code - zero); }
  // The byte that stands for a real.
  uint8_t ByteOf(float real, bool is_signed) const {
    const float lowest = is_signed ? -128.0f : 0.0f;
    const float code = std::nearbyint(real / scale) + static_cast<float>(zero);
    return static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(lowest, code), lowest + 255.0f)));
  }
};

// `zero_index` may name an input that the node leaves out.
inline Result<QLinearValue> ReadQLinear(TensorViews inputs, size_t scale_index, size_t zero_index) {
  const TensorView& scale = inputs[scale_index];
  if (scale.elems() != 1) return InvalidArgument("scale ", scale.dims(), " must be one element");
  QLinearValue value{.scale = scale.host<float>()[0]};
  if (zero_index >= inputs.size() || !inputs[zero_index].present()) return value;
  const TensorView& zero = inputs[zero_index];
  if (zero.elems() != 1) return InvalidArgument("zero point ", zero.dims(), " must be one element");
  value.zero = zero.type == DataType::kInt8 ? zero.host<int8_t>()[0] : zero.host<uint8_t>()[0];
  return value;
}

}  // namespace cudaep::ops
