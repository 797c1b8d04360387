// Views of the host's tensor values.
#pragma once

#include "abi/host.h"
#include "ops/tensor_view.h"

namespace cudaep::abi {

// Three calls into the host: data, type and dimensions. A null value is an absent tensor.
Status ViewTensor(const OrtValue* value, ops::TensorView* view);

}  // namespace cudaep::abi
