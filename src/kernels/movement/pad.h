// Copies a tensor into a larger or smaller one along any of its dimensions: what is outside of the input is a constant,
// or an element of the input.
#pragma once

#include <cstdint>

#include "core/dims.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int kMaxPadRank = 16;

enum class PadMode : uint8_t {
  kConstant,
  kReflect,  // mirrored at the first and last element, which are not repeated
  kEdge,     // the nearest element
  kWrap,     // periodic
};

// A coalesced pad. Dimensions are stored innermost first, the innermost one with a stride of 1.
struct PadCopy {
  PadMode mode = PadMode::kConstant;
  int rank = 0;
  int elem_bytes = 1;
  int widest_bytes = 1;  // unit that sizes and offsets allow; addresses may allow less
  int64_t elems = 0;     // of the output
  int64_t offset = 0;    // of the first element that is used, in elements as everything below
  int64_t out[kMaxPadRank] = {};
  int64_t in[kMaxPadRank] = {};     // what is used of the input
  int64_t begin[kMaxPadRank] = {};  // where that starts in the output
  int64_t stride[kMaxPadRank] = {};
};

// `begins` and `ends`, one for each dimension, are added before and behind; negative ones are cut off before anything
// is added. The output's dimensions, dims + begins + ends, must not be negative. kInvalidArgument for elements that
// only an empty input could give; kNotSupported when more than kMaxPadRank dimensions remain.
Result<PadCopy> MakePadCopy(Dims dims, Dims begins, Dims ends, PadMode mode, size_t elem_bytes);

// What kConstant fills with: an element in device memory, or the low bytes of `bits` where there is none.
struct PadValue {
  const void* pointer = nullptr;
  uint64_t bits = 0;
};

// Buffers must not overlap. An empty output launches nothing.
Status LaunchPad(const PadCopy& pad, const void* in, PadValue value, void* out, device::Stream stream);

}  // namespace cudaep::kernels
