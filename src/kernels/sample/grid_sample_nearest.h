// GridSample's nearest mode, which moves elements of any type.
#pragma once

#include "kernels/sample/grid_sample.h"

namespace cudaep::kernels {

Status LaunchGridSampleNearest(const GridSample& problem, size_t element_bytes, DataType grid_type, const void* x,
                               const void* grid, void* y, device::Stream stream);

}  // namespace cudaep::kernels
