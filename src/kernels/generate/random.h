// Random numbers that depend on a key, a call and a place alone: the same again wherever and however they are made.
//
// Philox4x32-10: four words from a key of 64 bits and a counter of 128, its lower half the group of four elements (of
// two for double), its upper half the call. Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

struct RandomStream {
  uint64_t key = 0;
  uint64_t call = 0;
};

enum class Distribution : uint8_t {
  kUniform,  // in [first, second), finite numbers at any distance; where both are equal, that number
  kNormal,   // of mean `first` and deviation `second`
};

// `type`: one of kFloatTypes.
Status LaunchRandom(Distribution distribution, double first, double second, RandomStream random, DataType type,
                    int64_t elems, void* y, device::Stream stream);

// y[i] = `one`, the bits of an element of `width` (1, 2, 4 or 8) bytes, with probability p[i], else 0. `type` is p's.
Status LaunchBernoulli(RandomStream random, DataType type, const void* p, uint64_t one, size_t width, int64_t elems,
                       void* y, device::Stream stream);

// Keeps an element with probability 1 - ratio and multiplies it with 1 / (1 - ratio), others with 0. `mask`, which may
// be null, says which were kept. y may be x.
Status LaunchDropout(RandomStream random, double ratio, DataType type, const void* x, int64_t elems, void* y,
                     bool* mask, device::Stream stream);

}  // namespace cudaep::kernels
