// From functors to launchers: every functor of a list instantiated for the types it names.
//
// A functor is a struct with a name, the set of types it exists for, and a call operator on compute types:
//
//   struct Abs {
//     static constexpr std::string_view kName = "Abs";
//     static constexpr DataTypeSet kTypes = kNumericTypes;
//     template <class T> __device__ __forceinline__ T operator()(T x) const { return x < T(0) ? Negate(x) : x; }
//   };
//
// Optional members: a constructor from two doubles, called with the arguments' alpha and beta; Approximate (see
// elementwise.cuh); `kToBool = true` for predicates; `kIgnoresSign = true` where the bits of the result do not depend
// on whether integers are signed: the unsigned kernels then serve both.
#pragma once

#include "core/data_type_traits.h"
#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/unary.h"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // a member that only a concept asks for counts as never referenced
#endif

namespace cudaep::kernels {

template <class F>
concept ToBool = F::kToBool;

template <class F>
concept IgnoresSign = F::kIgnoresSign;

template <class F, class T>
struct KernelTypeOf {
  using Type = T;
};
template <IgnoresSign F, class T>
requires std::is_integral_v<T>
struct KernelTypeOf<F, T> {
  using Type =
      typename std::conditional_t<std::is_same_v<T, bool>, std::type_identity<uint8_t>, std::make_unsigned<T>>::type;
};

template <class F, class T>
using OutputTypeOf = std::conditional_t<ToBool<F>, bool, T>;

template <class F, class Args>
F MakeFunctor(const Args& args) {
  if constexpr (std::is_constructible_v<F, double, double>) {
    return F(args.alpha, args.beta);
  } else {
    return F{};
  }
}

// One tensor, or several of one shape: a single dimension.
template <int kInputs>
Broadcast<kInputs> FlatBroadcast(int64_t elems) {
  Broadcast<kInputs> flat;
  flat.rank = 1;
  flat.elems = flat.size[0] = elems;
  for (auto& stride : flat.stride) stride[0] = 1;
  return flat;
}

template <class F, class T>
Status LaunchUnaryFunctor(const UnaryArgs& args, device::Stream stream) {
  return LaunchElementwise<F, OutputTypeOf<F, T>, T>(MakeFunctor<F>(args), {args.x}, args.y,
                                                     FlatBroadcast<1>(args.elems), stream);
}

template <class F, class T>
Status LaunchBinaryFunctor(const BinaryArgs& args, device::Stream stream) {
  return LaunchElementwise<F, OutputTypeOf<F, T>, T, T>(MakeFunctor<F>(args), {args.a, args.b}, args.y, *args.broadcast,
                                                        stream);
}

template <class... Fs>
UnaryKernel FindUnaryIn(std::string_view name, DataType type) {
  UnaryKernel found = nullptr;
  auto attempt = [&]<class F>() {
    if (name != F::kName) return;
    found = VisitType<F::kTypes, UnaryKernel>(
        type, nullptr, [&]<class T>() { return &LaunchUnaryFunctor<F, typename KernelTypeOf<F, T>::Type>; });
  };
  (attempt.template operator()<Fs>(), ...);
  return found;
}

template <class... Fs>
BinaryKernel FindBinaryIn(std::string_view name, DataType type) {
  BinaryKernel found = nullptr;
  auto attempt = [&]<class F>() {
    if (name != F::kName) return;
    found = VisitType<F::kTypes, BinaryKernel>(
        type, nullptr, [&]<class T>() { return &LaunchBinaryFunctor<F, typename KernelTypeOf<F, T>::Type>; });
  };
  (attempt.template operator()<Fs>(), ...);
  return found;
}

}  // namespace cudaep::kernels
