// Pooling of regions of interest: RoiAlign by interpolated samples, MaxRoiPool by whole pixels.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

struct RoiShape {
  int64_t batches = 0, channels = 0, height = 0, width = 0;  // of x
  int64_t rois = 0, out_height = 0, out_width = 0;
  float scale = 1;

  int64_t output_elems() const { return rois * channels * out_height * out_width; }
};

struct RoiAlign {
  RoiShape shape;
  bool max = false;         // of samples' weighted corners, as ONNX Runtime computes it
  bool half_pixel = false;  // coordinates are those of pixels' centres; regions may have any size
  int64_t sampling = 0;     // samples of a bin along each axis; 0: as many as pixels
};

// rois [rois, 4] are corners x1, y1, x2, y2; indices[rois] say which image. A region of an image that does not exist
// gives 0.
Status LaunchRoiAlign(const RoiAlign& problem, DataType type, const void* x, const void* rois, const int64_t* indices,
                      void* y, device::Stream stream);

// rois [rois, 5]: the image first.
Status LaunchMaxRoiPool(const RoiShape& shape, DataType type, const void* x, const void* rois, void* y,
                        device::Stream stream);

}  // namespace cudaep::kernels
