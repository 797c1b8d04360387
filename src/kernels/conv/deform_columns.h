// The column matrix of a deformable convolution: taps at places that offsets move, weighed by a mask.
#pragma once

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"
#include "kernels/conv/im2col.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kDeformTypes = kFloatTypes;

struct DeformColumns {
  Im2col shape;  // two dimensions, behind one of size 1; not transposed
  int64_t offset_groups = 1;
};

// One image. offset [offset_groups, taps, 2, out...] moves a tap down and across, mask [offset_groups, taps, out...]
// is null for ones. columns[c * taps + tap][p] for pixels [first_pixel, first_pixel + pixels): the input between its
// four neighbours, 0 outside of it.
Status LaunchDeformColumns(const DeformColumns& problem, DataType type, const void* x, const void* offset,
                           const void* mask, void* columns, int64_t first_pixel, int64_t pixels, device::Stream stream);

}  // namespace cudaep::kernels
