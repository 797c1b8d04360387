// One where an element's index along a dimension is the given one, zero elsewhere.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

// y: [outer, elems, inner] of a floating point type. positions: [outer, inner]. One launch, which writes whole packs.
struct HardmaxArgs {
  DataType type = DataType::kUndefined;
  const int64_t* positions = nullptr;
  void* y = nullptr;
  int64_t outer = 0, elems = 0, inner = 1;
};

Status LaunchHardmax(const HardmaxArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
