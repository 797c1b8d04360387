#include "core/data_type_traits.h"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/gated.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/epilogue/activate.cuh"

namespace cudaep::kernels {
namespace {

struct SplitGelu {
  GeluByErf gelu;
  template <class T>
  __device__ __forceinline__ T operator()(T left, T right, T left_bias, T right_bias) const {
    return (left + left_bias) * gelu(right + right_bias);
  }
  __device__ __forceinline__ float Approximate(float left, float right, float left_bias, float right_bias) const {
    return (left + left_bias) * gelu.Approximate(right + right_bias);
  }
};

struct ActivatedGate {
  Activation activation;
  template <class T>
  __device__ __forceinline__ T operator()(T gate, T other) const {
    return Activate(activation, {}, gate) * other;
  }
  __device__ __forceinline__ float Approximate(float gate, float other) const {
    return ActivateApproximately(activation, {}, gate) * other;
  }
};

template <class T>
struct Gate {
  using C = ComputeType<T>;
  __device__ __forceinline__ C operator()(C x, C y, C gate) const {
    // A product and a sum would be one instruction on some devices and two on others.
    const C product = Load(Store<T>(std::fma(y, gate, C(0))));
    return x + product;
  }
};

}  // namespace

Status LaunchBiasSplitGelu(DataType type, const void* x, const void* bias, int64_t rows, int64_t half, void* y,
                           device::Stream stream) {
  const Broadcast<4> b{.rank = rows == 1 ? 1 : 2,
                       .elems = rows * half,
                       .size = {half, rows},
                       .stride = {{1, 2 * half}, {1, 2 * half}, {1, 0}, {1, 0}}};
  return VisitType<kBiasSplitGeluTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    const auto *const left = static_cast<const T*>(x), *const left_bias = static_cast<const T*>(bias);
    return LaunchElementwise<SplitGelu, T, T, T, T, T>({}, {left, left + half, left_bias, left_bias + half}, y, b,
                                                       stream);
  });
}

Status LaunchGated(DataType type, Activation activation, const void* x, int64_t rows, int64_t half, int64_t gate,
                   int64_t other, void* y, device::Stream stream) {
  const Broadcast<2> b{
      .rank = rows == 1 ? 1 : 2, .elems = rows * half, .size = {half, rows}, .stride = {{1, 2 * half}, {1, 2 * half}}};
  return VisitType<kGatedTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    const auto* const row = static_cast<const T*>(x);
    return LaunchElementwise<ActivatedGate, T, T, T>({activation}, {row + gate, row + other}, y, b, stream);
  });
}

Status LaunchGatedAdd(DataType type, const void* x, const void* y, const void* gate, const Broadcast<3>& broadcast,
                      void* out, device::Stream stream) {
  return VisitType<kGatedAddTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return LaunchElementwise<Gate<T>, T, T, T, T>({}, {x, y, gate}, out, broadcast, stream);
  });
}

}  // namespace cudaep::kernels
