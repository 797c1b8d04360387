// How convolutions read and write codes of 8 bits.
#pragma once

#include <cstdint>
#include <limits>

namespace cudaep::kernels {

// A code stands for (code - zero) * scale.
struct Coding {
  float scale = 1;
  int32_t zero = 0;
  int32_t lowest = -128;  // of 256: 0 for codes of uint8
};

struct Bounds {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

}  // namespace cudaep::kernels
