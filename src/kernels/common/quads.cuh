// Tensors of any element type, 2 bits to 64, read and written four elements at a time: what kernels between narrow and
// wide types are written with.
//
// A thread has kQuadsPerThread quads, kQuadThreads apart so that neighbours access neighbouring memory, and the type is
// chosen by a switch outside of all of them: the cost of a kernel is the sum of its types, not their product. The loads
// of all quads are issued before the first is decoded. A quad of 2 or 4 bits is a whole number of bytes, so threads
// never share one.
#pragma once

#include <algorithm>
#include <utility>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/narrow.cuh"
#include "kernels/index_limit.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

inline constexpr int kQuad = 4;
inline constexpr int kQuadThreads = 256;
inline constexpr int kQuadsPerThread = 4;
inline constexpr uint32_t kQuadBlock = kQuad * kQuadThreads * kQuadsPerThread;  // elements
inline constexpr int64_t kQuadSliceElems = 1 << 30;                             // indices are 32-bit

// Elements that one launch takes: whole quads.
inline int64_t QuadSlice() { return std::min(kQuadSliceElems, AlignUp<int64_t>(index_limit, kQuad)); }

template <DataType type>
inline constexpr int kBitsOf = kSubByteTypes.Contains(type)
                                   ? (DataTypeSet{DataType::kUint2, DataType::kInt2}.Contains(type) ? 2 : 4)
                                   : 8;

// Calls `visit.operator()<type>()` for the one of `types` that `type` is: the device's switch.
template <DataTypeSet types, class Visitor>
__device__ __forceinline__ void WithType(DataType type, Visitor&& visit) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    const auto attempt = [&]<DataType candidate>() {
      if constexpr (types.Contains(candidate)) {
        if (type == candidate) {
          visit.template operator()<candidate>();
          return true;
        }
      }
      return false;
    };
    static_cast<void>((attempt.template operator()<static_cast<DataType>(i)>() || ...));
  }
  (std::make_integer_sequence<int, kDataTypeCount>{});
}

// The first element of one of the thread's quads.
__device__ __forceinline__ uint32_t QuadStart(int quad) {
  return ((blockIdx.x * kQuadsPerThread + quad) * kQuadThreads + threadIdx.x) * kQuad;
}

// What four elements of a type are in memory.
template <DataType type>
struct QuadOf {
  using Element = CppType<type>;
  Pack<Element, kQuad> pack;
};
template <DataType type>
requires(kNarrowTypes.Contains(type)) struct QuadOf<type> {
  using Element = uint8_t;
  static constexpr int kBytes = kQuad * kBitsOf<type> / 8;
  Pack<uint8_t, kBytes> pack;

  __device__ __forceinline__ uint32_t Code(int k) const {
    constexpr int kPerByte = 8 / kBitsOf<type>;
    return pack.value[k / kPerByte] >> (k % kPerByte * kBitsOf<type>)&((1u << kBitsOf<type>)-1);
  }
};

// The code of one element.
template <DataType type>
__device__ __forceinline__ uint32_t NarrowCode(const void* x, uint32_t element) {
  constexpr uint32_t kBits = kBitsOf<type>, kPerByte = 8 / kBits;
  const uint32_t byte = static_cast<const uint8_t*>(x)[element / kPerByte];
  return byte >> (element % kPerByte * kBits) & ((1u << kBits) - 1);
}

// A tensor as launches see it: `aligned` for whole quads at once.
struct QuadInput {
  const void* data = nullptr;
  bool aligned = false;
};
struct QuadOutput {
  void* data = nullptr;
  bool aligned = false;
};
template <class Tensor, class Pointer>
Tensor MakeQuads(Pointer* data, DataType type) {
  return {data, IsAligned(data, std::min<size_t>(kPackBytes, StorageBytes(type, kQuad)))};
}

// Of the quad whose first element is `first`; const Element* or Element*.
template <DataType type, class Element>
__device__ __forceinline__ Element* QuadAddress(Element* data, uint32_t first) {
  constexpr uint32_t kPerElement = kQuad * sizeof(Element) / sizeof(QuadOf<type>::pack);  // more than one in a byte
  return data + first / kPerElement;
}

template <DataType type>
__device__ __forceinline__ QuadOf<type> LoadQuad(const QuadInput& x, uint32_t first, uint32_t elems) {
  using Quad = QuadOf<type>;
  using Element = typename Quad::Element;
  Quad quad{};
  if (first >= elems) return quad;
  constexpr int kElements = sizeof(Quad::pack) / sizeof(Element);  // bytes of the narrow types
  const Element* from = QuadAddress<type>(static_cast<const Element*>(x.data), first);
  if (x.aligned && elems - first >= kQuad) {
    quad.pack = LoadPack<kElements>(from);
    return quad;
  }
  const uint32_t left = elems - first < kQuad ? elems - first : kQuad;
  const uint32_t whole = CeilDiv<uint32_t>(left * kElements, kQuad);
#pragma unroll
  for (uint32_t k = 0; k < kElements; ++k) {
    if (k < whole) quad.pack.value[k] = from[k];
  }
  return quad;
}

template <DataType type>
__device__ __forceinline__ void StoreQuad(const QuadOutput& y, uint32_t first, uint32_t elems,
                                          const QuadOf<type>& quad) {
  using Element = typename QuadOf<type>::Element;
  if (first >= elems) return;
  constexpr int kElements = sizeof(QuadOf<type>::pack) / sizeof(Element);
  Element* to = QuadAddress<type>(static_cast<Element*>(y.data), first);
  if (y.aligned && elems - first >= kQuad) {
    StorePack(to, quad.pack);
    return;
  }
  const uint32_t left = elems - first < kQuad ? elems - first : kQuad;
  const uint32_t whole = CeilDiv<uint32_t>(left * kElements, kQuad);
#pragma unroll
  for (uint32_t k = 0; k < kElements; ++k) {
    if (k < whole) to[k] = quad.pack.value[k];
  }
}

// All quads of a thread, the one with number j at first(j), each behind the one before. Where all are whole there is no
// branch between the loads: what takes a quad apart would wait for it before the next one is asked for.
template <DataType type, class First>
__device__ __forceinline__ void LoadQuads(const QuadInput& x, uint32_t elems, First&& first,
                                          QuadOf<type> (&quad)[kQuadsPerThread]) {
  using Element = typename QuadOf<type>::Element;
  constexpr int kElements = sizeof(QuadOf<type>::pack) / sizeof(Element);
  if (x.aligned && first(kQuadsPerThread - 1) + kQuad <= elems) {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
      quad[j].pack = LoadPack<kElements>(QuadAddress<type>(static_cast<const Element*>(x.data), first(j)));
    }
  } else {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) quad[j] = LoadQuad<type>(x, first(j), elems);
  }
}
template <DataType type, class First>
__device__ __forceinline__ void StoreQuads(const QuadOutput& y, uint32_t elems, First&& first,
                                           const QuadOf<type> (&quad)[kQuadsPerThread]) {
  using Element = typename QuadOf<type>::Element;
  if (y.aligned && first(kQuadsPerThread - 1) + kQuad <= elems) {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) {
      StorePack(QuadAddress<type>(static_cast<Element*>(y.data), first(j)), quad[j].pack);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kQuadsPerThread; ++j) StoreQuad<type>(y, first(j), elems, quad[j]);
  }
}

// Four codes to a quad; those behind the tensor's end are zero bits.
template <DataType type>
__device__ __forceinline__ QuadOf<type> PackCodes(const uint32_t (&code)[kQuad], uint32_t left) {
  constexpr int kBits = kBitsOf<type>, kPerByte = 8 / kBits;
  uint32_t byte[QuadOf<type>::kBytes] = {};
#pragma unroll
  for (int k = 0; k < kQuad; ++k) {
    if (kPerByte == 1 || k < static_cast<int64_t>(left)) byte[k / kPerByte] |= code[k] << (k % kPerByte * kBits);
  }
  QuadOf<type> quad;
#pragma unroll
  for (int i = 0; i < QuadOf<type>::kBytes; ++i) quad.pack.value[i] = static_cast<uint8_t>(byte[i]);
  return quad;
}

}  // namespace cudaep::kernels
