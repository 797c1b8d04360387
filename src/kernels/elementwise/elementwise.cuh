// The one element-wise kernel: out[i] = f(in0[i], in1[i], ...) with broadcasting, for any functor and types.
//
// The output is cut into packs of consecutive elements, 16 bytes of the widest type and at most eight elements, and a
// thread handles up to kPacks of them, fewer where there are not many: all loads are issued before the first result is
// stored. Where they are is worked out while the predecessor still runs (replay of tiny kernels on an H200: 0.75 us
// each, so 0.58). What is left behind the last whole pack is done element by element, one to a thread. Two variants:
// - packed: an input's part of a pack is one load, or one repeated element where its innermost stride is 0;
// - single (pack size 1), for rows that packs would straddle and for unaligned buffers. One tensor has no rows: its
//   unaligned buffers are treated like the elements behind the last pack.
// Memory bound: each input is read once and the output written once. Indices are 32-bit; larger outputs are sliced.
//
// A functor is called with the compute type of each input (fp32 for 16-bit floats) and returns the output's. It may
// have a second member Approximate(float...), used where all inputs are 16-bit floats: its error must be small beside
// the rounding to 16 bits.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/common/trigger.cuh"
#include "kernels/elementwise/broadcast.h"
#include "kernels/index_limit.h"
#include "kernels/pack.h"

namespace cudaep::kernels {

inline constexpr int kElementwiseThreads = 256;
inline constexpr int kMaxElementwisePack = 8;    // elements; more would only lengthen unrolled code
inline constexpr int kPacksPerThread = 2;        // packed variant, floats of up to 4 bytes; one of anything else
inline constexpr uint32_t kManyItems = 1 << 17;  // with fewer each has a thread of its own
inline constexpr int kSinglesPerThread = 4;      // single variant
inline constexpr int64_t kSliceElems = 1 << 30;  // FastDivider takes dividends below 2^31

// A broadcast as the kernel reads it; `size` is not divided by for the outermost dimension.
template <int kInputs>
struct Walk {
  uint32_t elems;
  uint32_t packs;       // whole packs
  uint32_t per_thread;  // items of a thread, at most the kernel's kPacks
  int32_t rank;
  FastDivider size[kMaxBroadcastRank];
  uint32_t stride[kInputs][kMaxBroadcastRank];
};

template <int kInputs>
struct ElementwiseInputs {
  const void* pointer[kInputs];
};

// Offsets into the inputs of output element `element`. A single input is never broadcast.
template <int kInputs>
__device__ __forceinline__ void Locate(const Walk<kInputs>& walk, uint32_t element, uint32_t (&offset)[kInputs]) {
  if constexpr (kInputs == 1) {
    offset[0] = element;
  } else {
    for (int i = 0; i < kInputs; ++i) offset[i] = 0;
    uint32_t rest = element;
    for (int d = 0; d < walk.rank; ++d) {
      uint32_t coordinate = rest;
      if (d + 1 < walk.rank) rest = walk.size[d].DivideWithRemainder(coordinate, &coordinate);
      for (int i = 0; i < kInputs; ++i) offset[i] += coordinate * walk.stride[i][d];
    }
  }
}

// A concept, because nvcc takes the same requirement for unmet inside the function.
template <class F, class... C>
concept HasApproximate = requires(const F& f, C... x) {
  f.Approximate(x...);
};

// f on values as stored.
template <class Out, class F, class... In>
__device__ __forceinline__ Out Evaluate(const F& f, In... x) {
  constexpr bool k16Bit = (!std::is_same_v<In, ComputeType<In>> && ...);
  if constexpr (k16Bit && HasApproximate<F, ComputeType<In>...>) {
    return Store<Out>(f.Approximate(Load(x)...));
  } else {
    return Store<Out>(f(Load(x)...));
  }
}

// The inputs of kPack consecutive output elements, in registers.
template <int kPack, class Out, class... In>
struct PackedInputs {
  static constexpr int kInputs = sizeof...(In);
  std::tuple<Pack<In, kPack>...> packs;

  __device__ __forceinline__ void LoadAt(const ElementwiseInputs<kInputs>& in, const Walk<kInputs>& walk,
                                         const uint32_t (&offset)[kInputs]) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      (LoadOne(std::get<i>(packs), in.pointer[i], offset[i], kInputs > 1 && walk.stride[i][0] == 0), ...);
    }
    (std::index_sequence_for<In...>{});
  }

  template <class F>
  __device__ __forceinline__ Pack<Out, kPack> Apply(const F& f) const {
    Pack<Out, kPack> result;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      result.value[k] = [&]<size_t... i>(std::index_sequence<i...>) {
        return Evaluate<Out>(f, std::get<i>(packs).value[k]...);
      }
      (std::index_sequence_for<In...>{});
    }
    return result;
  }

 private:
  template <class T>
  static __device__ __forceinline__ void LoadOne(Pack<T, kPack>& pack, const void* base, uint32_t offset,
                                                 bool repeated) {
    const T* pointer = static_cast<const T*>(base) + offset;
    if (kPack == 1 || !repeated) {
      pack = LoadPack<kPack>(pointer);
      return;
    }
    const T value = *pointer;
#pragma unroll
    for (int k = 0; k < kPack; ++k) pack.value[k] = value;
  }
};

template <int kPack, int kPacks, class F, class Out, class... In>
__global__ void __launch_bounds__(kElementwiseThreads)
    ElementwiseKernel(const F f, const ElementwiseInputs<sizeof...(In)> in, Out* out,
                      const __grid_constant__ Walk<sizeof...(In)> walk) {
  TriggerDependentsOfSmallGrid();
  const uint32_t item = blockIdx.x * (kElementwiseThreads * walk.per_thread) + threadIdx.x;
  const auto pack_of = [&](uint32_t j) { return item + j * kElementwiseThreads; };
  const auto has = [&](uint32_t j) { return j < walk.per_thread && pack_of(j) < walk.packs; };
  uint32_t offset[kPacks][sizeof...(In)] = {};
#pragma unroll
  for (uint32_t j = 0; j < kPacks; ++j) {
    if (has(j)) Locate(walk, pack_of(j) * kPack, offset[j]);
  }
  device::GridDependencyWait();
  PackedInputs<kPack, Out, In...> inputs[kPacks];
#pragma unroll
  for (uint32_t j = 0; j < kPacks; ++j) {
    if (has(j)) inputs[j].LoadAt(in, walk, offset[j]);
  }
#pragma unroll
  for (uint32_t j = 0; j < kPacks; ++j) {
    if (has(j)) StorePack(out + pack_of(j) * kPack, inputs[j].Apply(f));
  }
  if constexpr (kPack > 1) {  // items behind the packs are single elements
#pragma unroll 1
    for (uint32_t pack = item; pack < item + kElementwiseThreads * walk.per_thread; pack += kElementwiseThreads) {
      const uint32_t element = walk.packs * (kPack - 1) + pack;
      if (pack < walk.packs || element >= walk.elems) continue;
      PackedInputs<1, Out, In...> single;
      Locate(walk, element, offset[0]);
      single.LoadAt(in, walk, offset[0]);
      StorePack(out + element, single.Apply(f));
    }
  }
}

template <int kPack, int kPacks, class F, class Out, class... In>
Status LaunchVariant(F f, const ElementwiseInputs<sizeof...(In)>& in, Out* out, const Broadcast<sizeof...(In)>& b,
                     bool packed, device::Stream stream) {
  Walk<sizeof...(In)> walk{};
  walk.elems = static_cast<uint32_t>(b.elems);
  walk.packs = packed ? walk.elems / kPack : 0;
  walk.rank = b.rank;
  for (int d = 0; d < b.rank; ++d) {
    walk.size[d] = FastDivider(static_cast<uint32_t>(b.size[d]));
    for (size_t i = 0; i < sizeof...(In); ++i) walk.stride[i][d] = static_cast<uint32_t>(b.stride[i][d]);
  }
  const uint32_t items = walk.packs + (walk.elems - walk.packs * kPack);
  walk.per_thread = items < kManyItems ? 1 : kPacks;
  device::LaunchConfig config;
  config.grid.x = CeilDiv<uint32_t>(items, kElementwiseThreads * walk.per_thread);
  config.block.x = kElementwiseThreads;
  config.programmatic = true;
  return device::Launch(ElementwiseKernel<kPack, kPacks, F, Out, In...>, config, stream, f, in, out, walk);
}

// Chooses the variant for these shapes and pointers and launches it. An empty output launches nothing.
template <class F, class Out, class... In>
Status LaunchElementwise(F f, const std::array<const void*, sizeof...(In)>& inputs, void* output,
                         const Broadcast<sizeof...(In)>& b, device::Stream stream) {
  constexpr int kInputs = sizeof...(In);
  constexpr size_t kWidest = std::max({sizeof(Out), sizeof(In)...});
  constexpr int kPack = std::min(PackElems(kWidest), kMaxElementwisePack);
  constexpr size_t kInputBytes[] = {sizeof(In)...};
  if (b.elems == 0) return Status::Ok();
  if (b.elems > std::min(kSliceElems, index_limit)) {
    const BroadcastHalves<kInputs> halves = SplitBroadcast(b);
    std::array<const void*, kInputs> rest = inputs;
    for (size_t i = 0; i < kInputs; ++i) {
      rest[i] = static_cast<const std::byte*>(inputs[i]) + halves.skip[i] * static_cast<int64_t>(kInputBytes[i]);
    }
    CUDAEP_RETURN_IF_ERROR((LaunchElementwise<F, Out, In...>(f, inputs, output, halves.first, stream)));
    return LaunchElementwise<F, Out, In...>(f, rest, static_cast<Out*>(output) + halves.first.elems, halves.second,
                                            stream);
  }
  ElementwiseInputs<kInputs> in{};
  bool packed = (b.rank == 1 || b.size[0] % kPack == 0) && IsAligned(output, kPack * sizeof(Out));
  for (size_t i = 0; i < kInputs; ++i) {
    in.pointer[i] = inputs[i];
    packed = packed && (b.stride[i][0] == 0 || IsAligned(inputs[i], kPack * kInputBytes[i]));
  }
  Out* out = static_cast<Out*>(output);
  if constexpr (kInputs > 1 && kPack > 1) {
    if (!packed) return LaunchVariant<1, kSinglesPerThread, F, Out, In...>(f, in, out, b, true, stream);
  }
  constexpr int kPacks = (std::is_same_v<ComputeType<In>, float> && ...) ? kPacksPerThread : 1;
  return LaunchVariant<kPack, kPacks, F, Out, In...>(f, in, out, b, packed, stream);
}

}  // namespace cudaep::kernels
