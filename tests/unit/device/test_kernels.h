// Launchers of the kernels these tests run. Sizes are elements; pointers are device or pinned memory.
#pragma once

#include <cstdint>

#include "core/float16.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::device::testing {

template <class T>
Status LaunchAdd(Stream stream, const T* a, const T* b, T* out, int64_t count);
// One block per row; `threads` is a multiple of 32.
Status LaunchSoftmax(Stream stream, const float* in, float* out, int rows, int columns, int threads);
Status LaunchTranspose(Stream stream, const float* in, float* out, int rows, int columns);
// counts[v % buckets] += 1 for each value, total += 1.0f for each, maximum = max(values).
Status LaunchHistogram(Stream stream, const int* values, int count, int* counts, int buckets, float* total,
                       int* maximum);
// out[i] = value, one thread per element.
Status LaunchFill(Stream stream, float* out, float value, int count);
// out[0] = sum over `repeats` rounds of a block-wide sum of in, to keep the executor busy for a while.
Status LaunchWork(Stream stream, const float* in, float* out, int repeats);

struct Tensors {
  const float* in;
  float* out;
  int count;
};
// out[i] = 2 * in[i], with pointers inside a struct that is written through (and one that does not say so).
Status LaunchDouble(Stream stream, const Tensors& tensors);

// out[i] = lane votes and shuffles of the first `active` threads; the others exit before the barrier.
Status LaunchEarlyExit(Stream stream, int* out, int threads, int active);

// Mistakes.
Status LaunchPastEnd(Stream stream, float* out, int index);        // out[index] = 1
Status LaunchStuck(Stream stream, float* out);                     // half a warp shuffles, half is at the barrier
Status LaunchWrongMask(Stream stream, float* out);                 // a lane that is not in its own mask
Status LaunchReadOnly(Stream stream, const float* in, int count);  // reads, writes nothing
// A programmatic launch of out[i] = in[i] that waits for its predecessor before it reads, after it, or never.
enum class Dependence : uint8_t { kWaits, kReadsFirst, kNeverWaits };
Status LaunchDependent(Stream stream, const float* in, float* out, int count, Dependence dependence);
// out = what each block of 64 threads finds in static or dynamic shared memory, zero if it initialises it.
Status LaunchStaleShared(Stream stream, float* out, bool dynamic, bool initialise, int blocks);
// A programmatic launch of one block that sets 64 integers of shared memory, in one of three parts of an array, before
// it waits; out = what it finds after.
Status LaunchEarlyShared(Stream stream, int* out, int value, int part = 0);
Status LaunchBadBlock(Stream stream, float* out, unsigned threads);

}  // namespace cudaep::device::testing
