// Pooling with channels last by packs: a thread has 16 bytes of the channels at an output position, and reads them at
// every tap of its window.
#pragma once

#include "kernels/pool/pool.h"

namespace cudaep::kernels {

// `*launched` stays false where type, number of channels or addresses want single elements.
Status LaunchMaxPoolLast(const PoolShape& shape, const void* x, void* y, device::Stream stream, bool* launched);
Status LaunchAveragePoolLast(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream,
                             bool* launched);

}  // namespace cudaep::kernels
