// Launchers of kernels that use asynchronous copies and tensor cores. Sizes are elements; one block each.
#pragma once

#include <cstdint>

#include "core/float16.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::device::testing {

// d[16 x 8] += a[16 x K] * b[K x 8], row-major, K as the type has it; the fragments are taken from global memory.
template <class T>
Status LaunchMma(Stream stream, const T* a, const T* b, float* d);
template <class A, class B>
Status LaunchByteMma(Stream stream, const A* a, const B* b, int32_t* d);
// The same, the operands passing through shared memory and LoadMatrix.
template <class T>
Status LaunchLoadedMma(Stream stream, const T* a, const T* b, float* d);
// out[lane * count + m] = what LoadMatrix<count> gives a lane of matrix m; in: count matrices of 8 x 8.
Status LaunchLoadMatrix(Stream stream, const uint16_t* in, uint32_t* out, int count, bool transposed);

// out = 2 * in for `tiles` tiles of kTile floats, copied `kAhead` tiles ahead by each thread.
inline constexpr int kTile = 64, kAhead = 3;
enum class CopyMistake : uint8_t {
  kNone,
  kNoWait,        // what was copied is read without a wait
  kTooFewWaits,   // for a group too few
  kMisaligned,    // to an address that is not aligned
  kNoInit,        // of the barrier
  kTooFewBytes,   // announced to the barrier
  kTooManyBytes,  // likewise
  kNotWaitedFor,  // the last copy is in flight when the block ends
  kNoArrival,     // of a thread that the barrier counts
};
Status LaunchGroupCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake = {});
// The same by bulk copies, a barrier a slot; by each thread's copies with such barriers.
Status LaunchBulkCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake = {});
// The same by stores into the shared memory of another block of a cluster; on the simulated device the block's own.
Status LaunchClusterStores(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake = {});
Status LaunchBarrierCopies(Stream stream, const float* in, float* out, int tiles, CopyMistake mistake = {});
// out[i] = in[i] for i < valid and 0 behind, in copies of 4, 8 and 16 bytes.
Status LaunchPartialCopy(Stream stream, const float* in, float* out, int valid_bytes);
// out = {FastExp2(in[i])}, then the larger of neighbours as fp16 and as bf16 in one word each.
Status LaunchMath(Stream stream, const float* in, float* exponentials, const uint32_t* pairs, uint32_t* halves,
                  uint32_t* bfloats, int count);
// Of each number and the next one, a and b, out has JoinWithinBytes(a, b) and (b, a, a, b), and what SumOfBytes makes
// of a, with signs and without, at the bytes in which b is odd.
Status LaunchWords(Stream stream, const int32_t* in, uint32_t* out, int count);

// Mistakes.
Status LaunchMmaOfHalfAWarp(Stream stream, float* d);

}  // namespace cudaep::device::testing
