// How the elements of broadcast inputs map to those of one contiguous output: coalesced dimensions, by value.
//
// Dimensions are stored innermost first. Coalescing merges neighbours that every input walks alike and drops those of
// size 1, so tensors of equal shape become one dimension, and the innermost stride of each input is 0 or 1.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/dims.h"
#include "core/status.h"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {

inline constexpr int kMaxBroadcastRank = 8;

template <int kInputs>
struct Broadcast {
  int rank = 0;                                     // coalesced; 0 only for an empty or one-element output
  int64_t elems = 0;                                // of the output
  int64_t size[kMaxBroadcastRank] = {};             // innermost first
  int64_t stride[kInputs][kMaxBroadcastRank] = {};  // in elements; 0 where the input is repeated
};

namespace detail {
// `strides` gets one row of kMaxBroadcastRank for each input.
Status CoalesceBroadcast(Dims output, std::span<const Dims> inputs, int* rank, int64_t* elems, int64_t* size,
                         int64_t* strides);
}  // namespace detail

// Inputs must broadcast to `output` (numpy rules). kNotSupported when more than kMaxBroadcastRank dimensions remain
// after coalescing.
template <int kInputs>
Result<Broadcast<kInputs>> MakeBroadcast(Dims output, const std::array<Dims, kInputs>& inputs) {
  Broadcast<kInputs> b;
  CUDAEP_RETURN_IF_ERROR(detail::CoalesceBroadcast(output, inputs, &b.rank, &b.elems, b.size, &b.stride[0][0]));
  return b;
}

// Halves the outermost dimension of a broadcast with more than one element. The second half starts behind the first
// one's elements in the output and `skip[i]` elements further in input i.
template <int kInputs>
struct BroadcastHalves {
  Broadcast<kInputs> first, second;
  int64_t skip[kInputs];
};

template <int kInputs>
BroadcastHalves<kInputs> SplitBroadcast(const Broadcast<kInputs>& whole) {
  BroadcastHalves<kInputs> halves{whole, whole, {}};
  const int outer = whole.rank - 1;
  const int64_t rows = whole.size[outer] / 2;
  halves.first.size[outer] = rows;
  halves.first.elems = whole.elems / whole.size[outer] * rows;
  halves.second.size[outer] -= rows;
  halves.second.elems -= halves.first.elems;
  for (int i = 0; i < kInputs; ++i) halves.skip[i] = rows * whole.stride[i][outer];
  for (Broadcast<kInputs>* half : {&halves.first, &halves.second}) {
    if (half->size[outer] == 1 && half->rank > 1) --half->rank;
  }
  return halves;
}

}  // namespace cudaep::kernels
