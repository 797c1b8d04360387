// What the sources of a padding copy have in common.
#pragma once

#include "kernels/movement/copy_kernel.cuh"
#include "kernels/movement/pad.h"

namespace cudaep::kernels {

// Sizes of a pad in units, innermost first.
template <class Index>
struct PadView {
  using Coordinate = std::make_signed_t<Index>;
  int rank = 1;
  IndexDivider<Index> out[kMaxPadRank];
  Coordinate in[kMaxPadRank] = {};  // no more than `out`, as `begin`
  Coordinate begin[kMaxPadRank] = {};
  int64_t stride[kMaxPadRank] = {};
};

// `factor`: elements in a unit.
template <class Index>
PadView<Index> MakePadView(const PadCopy& pad, int64_t factor) {
  PadView<Index> view;
  view.rank = pad.rank;
  for (int d = 0; d < pad.rank; ++d) {
    const int64_t inner = d == 0 ? factor : 1;
    view.out[d] = IndexDivider<Index>(pad.out[d] / inner);
    view.in[d] = static_cast<typename PadView<Index>::Coordinate>(pad.in[d] / inner);
    view.begin[d] = static_cast<typename PadView<Index>::Coordinate>(pad.begin[d] / inner);
    view.stride[d] = d == 0 ? 1 : pad.stride[d] / factor;
  }
  return view;
}

// From the first element of the input that is used to the last one.
inline Readable ReadablePad(const PadCopy& pad, const void* in) {
  int64_t last = 0;
  for (int d = 0; d < pad.rank; ++d) {
    if (pad.in[d] == 0) return {};
    last += (pad.in[d] - 1) * pad.stride[d];
  }
  const auto* const begin = static_cast<const std::byte*>(in) + pad.offset * pad.elem_bytes;
  return {begin, static_cast<size_t>((last + 1) * pad.elem_bytes)};
}

// A unit of equal elements; one of 16 bytes is not repeated.
template <class Unit>
__device__ __forceinline__ Unit Repeat(const PadValue& value, int elem_bytes) {
  uint64_t low = value.bits, high = value.bits;
  if (value.pointer != nullptr) {
    switch (elem_bytes) {
      case 1:
        low = *static_cast<const uint8_t*>(value.pointer);
        break;
      case 2:
        low = *static_cast<const uint16_t*>(value.pointer);
        break;
      case 4:
        low = *static_cast<const uint32_t*>(value.pointer);
        break;
      default: {  // perhaps two components, aligned to one
        const auto* const word = static_cast<const uint32_t*>(value.pointer);
        low = word[0] | uint64_t{word[1]} << 32;
        if (elem_bytes == 16) high = word[2] | uint64_t{word[3]} << 32;
      }
    }
  }
  if (elem_bytes == 1) low = (low & 0xff) * 0x0101010101010101u;
  if (elem_bytes == 2) low = (low & 0xffff) * 0x0001000100010001u;
  if (elem_bytes == 4) low = (low & 0xffffffff) * 0x0000000100000001u;
  if constexpr (sizeof(Unit) == 16) {
    return {{low, elem_bytes == 16 ? high : low}};
  } else if constexpr (kIsSplit<Unit>) {
    return {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32)}};
  } else {
    return static_cast<Unit>(low);
  }
}

// The position of the input that stands at `position`, which may be anywhere, of `size` positions.
template <class Coordinate>
__device__ __forceinline__ Coordinate MapPosition(Coordinate position, Coordinate size, PadMode mode) {
  const Coordinate last = size - 1;
  if (mode == PadMode::kEdge) return device::Min(device::Max(position, Coordinate{0}), last);
  if (mode == PadMode::kWrap) {
    if (position < 0) position += size;
    if (position >= size) position -= size;
    if (position >= 0 && position < size) return position;
    const Coordinate rest = position % size;
    return rest < 0 ? rest + size : rest;
  }
  const auto distance = [](Coordinate a, Coordinate b) { return a < b ? b - a : a - b; };
  const Coordinate from_first = distance(position, 0);
  const Coordinate reflected = last - distance(from_first, last);
  if (reflected >= 0) return reflected;
  return last == 0 ? 0 : last - distance(from_first % (2 * last), last);  // there and back
}

struct PadUnit {
  int bytes;
  int alignment;  // of both buffers, at most 16
};

// For an output that is not empty.
Status LaunchPadConstant(const PadCopy& pad, PadUnit unit, const void* in, PadValue value, void* out,
                         device::Stream stream);
Status LaunchPadMapped(const PadCopy& pad, PadUnit unit, const void* in, void* out, device::Stream stream);

// Rows of whole packs, of which a warp has some: what they and the ends of a row take is worked out once for many
// packs.
bool PadsByRows(const PadCopy& pad, PadUnit unit, const void* out);
Status LaunchPadRows(const PadCopy& pad, PadUnit unit, const void* in, PadValue value, void* out,
                     device::Stream stream);

}  // namespace cudaep::kernels
