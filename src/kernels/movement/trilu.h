// Copies one triangle of matrices and clears the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

// Matrices of rows x columns, one behind another. An upper triangle begins at the diagonal `k`, a lower one ends there;
// 0 is the main one, those above it are positive.
struct Triangle {
  int64_t matrices = 0, rows = 0, columns = 0;
  int64_t k = 0;
  int64_t upper = 1;
};

// `elem_bytes`: 1, 2, 4, 8 or 16. `out` may be `in`.
Status LaunchTrilu(const Triangle& triangle, size_t elem_bytes, const void* in, void* out, device::Stream stream);

}  // namespace cudaep::kernels
