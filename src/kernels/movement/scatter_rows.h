// Writes the rows of an update into a cache, for each sequence from a position of its own on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace cudaep::kernels {

// cache is [batch, outer, length, row], the update [batch, outer, count, row].
struct ScatterRows {
  int64_t batch = 0, outer = 0, length = 0, count = 0;
  int64_t row_bytes = 0;
  int64_t circular = 0;  // 1: positions wrap around; 0: rows outside the cache are left out
};

// `positions` has one int64 a batch entry in device memory; null starts all at 0.
Status LaunchScatterRows(const ScatterRows& shape, const void* update, const int64_t* positions, void* cache,
                         device::Stream stream);

}  // namespace cudaep::kernels
