// Views of the host's tensor values, and what memory they are in.
#pragma once

#include "abi/host.h"
#include "ops/tensor_view.h"

namespace cudaep::abi {

// Three calls into the host: data, type and dimensions. A null value is an absent tensor.
Status ViewTensor(const OrtValue* value, ops::TensorView* view);

bool IsOurs(const OrtMemoryDevice* memory);  // a GPU's, or page-locked memory that belongs to it
bool IsInDeviceMemory(const OrtMemoryDevice* memory);
bool IsHost(const OrtMemoryDevice* memory);  // pageable

}  // namespace cudaep::abi
