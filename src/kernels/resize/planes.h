// Resize of at most two dimensions that are neighbours, as nearly every model has it: a batch of planes whose rows and
// columns are scaled, each column `inner` elements wide (channels last; 1 otherwise).
#pragma once

#include <optional>

#include "kernels/resize/resize.h"

namespace cudaep::kernels {

struct ResizePlanes {
  ResizeDim row, column;
  int64_t inner = 1;
  int64_t planes = 1;
};

// Nothing for other forms, which keep the kernels of any rank.
std::optional<ResizePlanes> AsPlanes(const ResizeShape& shape);

}  // namespace cudaep::kernels
