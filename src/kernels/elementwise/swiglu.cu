#include "core/data_type_traits.h"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/swiglu.h"

namespace cudaep::kernels {
namespace {

// Below it exp(-x) comes near the end of fp32, where sigmoid(x) is exp(x).
constexpr float kTail = -87;

template <class T>
struct SwiGlu {
  float alpha, beta, limit;
  bool rounds;

  __device__ __forceinline__ float operator()(float gate, float up) const {
    const bool bounded = limit > 0;
    const float g = bounded && gate > limit ? limit : gate;
    const float u = bounded && up > limit ? limit : bounded && up < -limit ? -limit : up;
    const float factor = beta == 0 ? u : u + beta;  // a negative zero stays one
    const float x = alpha * g;
    if (x < kTail) {
      double tail = static_cast<double>(g) * std::exp(static_cast<double>(x));
      if (rounds) tail = Load(Store<T>(static_cast<float>(tail)));
      return static_cast<float>(tail * static_cast<double>(factor));
    }
    const float activated = g / (1.0f + std::exp(-x));
    return (rounds ? Load(Store<T>(activated)) : activated) * factor;
  }
};

}  // namespace

Status LaunchSwiGlu(const SwiGluArgs& args, device::Stream stream) {
  const Broadcast<2> b{.rank = args.rows == 1 ? 1 : 2,
                       .elems = args.rows * args.columns,
                       .size = {args.columns, args.rows},
                       .stride = {{1, args.row_step}, {1, args.row_step}}};
  return VisitType<kSwiGluTypes>(args.type, NotSupported("element type ", DataTypeName(args.type)), [&]<class T>() {
    const SwiGlu<T> functor{args.alpha, args.beta, args.limit, args.rounds_activation};
    return LaunchElementwise<SwiGlu<T>, T, T, T>(functor, {args.gate, args.up}, args.y, b, stream);
  });
}

}  // namespace cudaep::kernels
