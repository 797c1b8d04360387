// Inputs that a node may leave out, at the end of the list too.
#pragma once

#include "ops/tensor_view.h"

namespace cudaep::ops {

// The input, or an absent one where the node has none at `index`; below 0 there never is one.
inline TensorView InputAt(TensorViews inputs, int index) {
  const bool given = index >= 0 && static_cast<size_t>(index) < inputs.size();
  return given ? inputs[static_cast<size_t>(index)] : TensorView{};
}

inline bool HasInput(TensorViews inputs, int index) { return InputAt(inputs, index).present(); }

}  // namespace cudaep::ops
