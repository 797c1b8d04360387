// Adds up the columns of sliding blocks to images: what im2col takes apart, for any number of dimensions.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxCol2ImRank = 8;

// columns is [images, channels, positions in a block, blocks], the result [images, channels, image].
struct Col2Im {
  DataType type = DataType::kFloat;
  int64_t images = 0, channels = 0;
  int rank = 0;
  int64_t image[kMaxCol2ImRank] = {};
  int64_t block[kMaxCol2ImRank] = {};
  int64_t blocks[kMaxCol2ImRank] = {};  // along each dimension
  int64_t stride[kMaxCol2ImRank] = {};
  int64_t dilation[kMaxCol2ImRank] = {};
  int64_t pad[kMaxCol2ImRank] = {};  // before the image
};

// Every element of an image gathers its terms, in their order: nothing is added atomically.
Status LaunchCol2Im(const Col2Im& shape, const void* columns, void* image, device::Stream stream);

}  // namespace cudaep::kernels
