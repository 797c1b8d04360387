// Non-maximum suppression: of boxes in the order of their scores, those that no better box overlaps too much.
//
// One block for each batch and class. Candidates are taken 256 at a time and compared with all boxes kept so far;
// inside of such a group one barrier is needed for each box that is kept. No matrix of overlaps is made.
#pragma once

#include <cstdint>

#include "core/float16.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

struct NonMaxSuppression {
  int64_t batches = 0, classes = 0, boxes = 0;
  int64_t most = 0;            // boxes kept in each class, at most `boxes`
  bool center = false;         // boxes are centre and size, not two corners
  bool has_threshold = false;  // of scores
  float overlap = 0, score = 0;

  CUDAEP_HOST_DEVICE int64_t rows() const { return batches * classes; }
};

// boxes [batches, boxes, 4], scores [rows, boxes], order: the boxes of each row by falling score.
// kept [rows, most] gets positions of boxes, counts[row] how many of them, counts[rows] the sum of all.
Status LaunchSuppress(const NonMaxSuppression& problem, const float* boxes, const float* scores, const int64_t* order,
                      int32_t* kept, int64_t* counts, device::Stream stream);

// The result's rows: batch, class and box.
Status LaunchWriteSelected(const NonMaxSuppression& problem, const int32_t* kept, const int64_t* counts,
                           int64_t* selected, device::Stream stream);

}  // namespace cudaep::kernels
