#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/conv/causal_conv.h"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;

// Elements of a tensor in the order in which threads take them: entries, then steps of channels or channels of steps.
struct Order {
  FastDivider inner, outer;
  uint32_t elems = 0;
  bool channels_last = false;
  uint8_t unused[3] = {};

  Order() = default;
  Order(int64_t batch, int64_t channels, int64_t steps, bool last)
      : elems(static_cast<uint32_t>(batch * channels * steps)), channels_last(last) {
    if (elems == 0) return;
    inner = FastDivider(static_cast<uint32_t>(last ? channels : steps));
    outer = FastDivider(static_cast<uint32_t>(last ? steps : channels));
  }
};

struct Arguments {
  CausalConv conv;
  CausalConvPointers at;
  Order results, states, updates;  // states of one slot
};

struct Element {
  int64_t entry, channel, step;
};

__device__ __forceinline__ Element ElementOf(const Order& order, uint32_t index) {
  uint32_t inner, outer;
  const uint32_t row = order.inner.DivideWithRemainder(index, &inner);
  const uint32_t entry = order.outer.DivideWithRemainder(row, &outer);
  return order.channels_last ? Element{entry, inner, outer} : Element{entry, outer, inner};
}

__device__ __forceinline__ int64_t Offset(const CausalStrides& strides, const Element& e) {
  return e.entry * strides.entry + e.channel * strides.channel + e.step * strides.step;
}

// The input at a step, which the past has below 0.
template <class T>
__device__ __forceinline__ float InputAt(const Arguments& g, Element e) {
  const CausalConv& conv = g.conv;
  if (e.step >= 0) return Load(static_cast<const T*>(g.at.x)[Offset(conv.x, e)]);
  e.step += conv.history;
  if (g.at.past == nullptr || e.step < 0) return 0;
  const int64_t slot = (conv.window - 1) * conv.state_elems();
  return Load(static_cast<const T*>(g.at.past)[slot + Offset(conv.state, e)]);
}

template <class T>
__device__ __forceinline__ void WriteResult(const Arguments& g, uint32_t index) {
  const CausalConv& conv = g.conv;
  Element e = ElementOf(g.results, index);
  const int64_t to = Offset(conv.y, e);
  const T* const w = static_cast<const T*>(g.at.w) + e.channel * conv.taps;
  float sum = g.at.bias == nullptr ? 0 : Load(static_cast<const T*>(g.at.bias)[e.channel]);
  e.step -= (conv.taps - 1) * conv.dilation;
#pragma unroll 4
  for (int64_t tap = 0; tap < conv.taps; ++tap, e.step += conv.dilation) sum += Load(w[tap]) * InputAt<T>(g, e);
  if (conv.silu) sum = sum / (1.0f + std::exp(-sum));
  static_cast<T*>(g.at.y)[to] = Store<T>(sum);
}

template <class T>
__device__ __forceinline__ void WriteState(const Arguments& g, uint32_t index) {
  const CausalConv& conv = g.conv;
  const uint32_t slot = index / g.states.elems;
  Element e = ElementOf(g.states, index - slot * g.states.elems);
  const int64_t to = slot * conv.state_elems() + Offset(conv.state, e);
  const int64_t steps = conv.length - conv.window + 1 + slot;  // that the state follows
  e.step += steps - conv.history;
  const bool known = steps > 0 || slot + 1 == conv.window;
  static_cast<T*>(g.at.present)[to] = Store<T>(known ? InputAt<T>(g, e) : 0.0f);
}

template <class T>
__device__ __forceinline__ void WriteUpdate(const Arguments& g, uint32_t index) {
  const Element e = ElementOf(g.updates, index);
  const float value = e.step < g.conv.length ? InputAt<T>(g, e) : 0.0f;
  static_cast<T*>(g.at.updates)[index] = Store<T>(value);
}

template <class T>
__global__ void __launch_bounds__(kThreads) CausalConvKernel(__grid_constant__ const Arguments g) {
  device::GridDependencyWait();
  const uint64_t states = g.at.present == nullptr ? 0 : uint64_t{g.states.elems} * static_cast<uint64_t>(g.conv.window);
  const uint64_t all = g.results.elems + states + g.updates.elems;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += uint64_t{gridDim.x} * kThreads) {
    if (i < g.results.elems) {
      WriteResult<T>(g, static_cast<uint32_t>(i));
    } else if (i < g.results.elems + states) {
      WriteState<T>(g, static_cast<uint32_t>(i - g.results.elems));
    } else {
      WriteUpdate<T>(g, static_cast<uint32_t>(i - g.results.elems - states));
    }
  }
}

}  // namespace

Status LaunchCausalConv(const CausalConv& conv, const CausalConvPointers& at, device::Stream stream) {
  const int64_t results = conv.batch * conv.channels * conv.length;
  const int64_t states = at.present == nullptr ? 0 : conv.window * conv.state_elems();
  const int64_t updates = at.updates == nullptr ? 0 : conv.batch * conv.captured * conv.channels;
  if (!FitsInt32(results) || !FitsInt32(states) || !FitsInt32(updates)) {
    return NotSupported("a causal convolution of ", results, " results and ", states, " elements of states");
  }
  if (results + states + updates == 0) return Status::Ok();
  const Arguments g{
      .conv = conv,
      .at = at,
      .results = Order(conv.batch, conv.channels, conv.length, conv.channels_last),
      .states = Order(conv.batch, conv.channels, states == 0 ? 0 : conv.history, conv.state_channels_last),
      .updates = Order(conv.batch, conv.channels, updates == 0 ? 0 : conv.captured, true)};
  device::LaunchConfig config;
  constexpr int64_t kPerThread = 4, kMostBlocks = 1 << 20;
  const int64_t blocks = CeilDiv<int64_t>(results + states + updates, kThreads);
  config.grid.x = static_cast<unsigned>(std::min(blocks, std::max(CeilDiv(blocks, kPerThread), kMostBlocks)));
  config.block.x = kThreads;
  config.programmatic = true;
  return VisitType<kFloatTypesNoDouble>(
      conv.type, NotSupported("causal convolution of ", DataTypeName(conv.type)),
      [&]<class T>() { return device::Launch(CausalConvKernel<T>, config, stream, g); });
}

}  // namespace cudaep::kernels
