#include "core/shape.h"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/epilogue/activate.cuh"
#include "kernels/epilogue/finish.h"

namespace cudaep::kernels {
namespace {

struct Finisher {
  float alpha, beta;
  bool bias, adds_last;
  Activation activation;
  ActivationParameters parameters;

  template <class S, class C>
  __device__ __forceinline__ C operator()(S sum, C bias_value, C residual) const {
    return Last(Activate(activation, parameters, Argument(sum, bias_value, residual)), residual);
  }
  __device__ __forceinline__ float Approximate(float sum, float bias_value, float residual) const {
    return Last(ActivateApproximately(activation, parameters, Argument(sum, bias_value, residual)), residual);
  }

  // What the epilogue has not is some element of the sums, and must not count, not even as NaN.
  template <class S, class C>
  __device__ __forceinline__ C Argument(S sum, C bias_value, C residual) const {
    C value = static_cast<C>(alpha) * static_cast<C>(sum);
    if (bias) value += bias_value;
    if (beta != 0.0f && !adds_last) value += static_cast<C>(beta) * residual;
    return value;
  }
  template <class C>
  __device__ __forceinline__ C Last(C value, C residual) const {
    return beta != 0.0f && adds_last ? value + static_cast<C>(beta) * residual : value;
  }
};

template <class From, class To>
Status LaunchAs(const Finish& finish, const void* sums, const void* bias, const void* residual, void* result,
                device::Stream stream) {
  const Epilogue& e = finish.epilogue;
  return LaunchElementwise<Finisher, To, From, To, To>({.alpha = e.alpha,
                                                        .beta = e.beta,
                                                        .bias = e.bias,
                                                        .adds_last = e.adds_last,
                                                        .activation = e.activation,
                                                        .parameters = e.parameters},
                                                       {sums, e.bias ? bias : sums, e.residual() ? residual : sums},
                                                       result, finish.broadcast, stream);
}

using Launcher = Status (*)(const Finish&, const void*, const void*, const void*, void*, device::Stream);

Launcher FindLauncher(DataType from, DataType to) {
  if (from != to && from != DataType::kInt32) return nullptr;
  switch (to) {
    case DataType::kFloat:
      return from == to ? LaunchAs<float, float> : LaunchAs<int32_t, float>;
    case DataType::kFloat16:
      return from == to ? LaunchAs<Half, Half> : LaunchAs<int32_t, Half>;
    case DataType::kBFloat16:
      return from == to ? LaunchAs<BFloat16, BFloat16> : LaunchAs<int32_t, BFloat16>;
    case DataType::kDouble:
      return from == to ? LaunchAs<double, double> : nullptr;
    default:
      return nullptr;
  }
}

// The function of one tensor that an epilogue of nothing but an activation is; null where it is more, or has none.
UnaryKernel FindAlone(DataType type, const Epilogue& e) {
  if (e.alpha != 1.0f || e.bias || e.residual()) return nullptr;
  switch (e.activation) {
    case Activation::kRelu:
      return FindUnaryKernel("Relu", type);
    case Activation::kGeluErf:
      return FindUnaryKernel("Gelu", type);
    case Activation::kGeluTanh:
      return FindUnaryKernel("FastGelu", type);
    case Activation::kSigmoid:
      return FindUnaryKernel("Sigmoid", type);
    case Activation::kTanh:
      return FindUnaryKernel("Tanh", type);
    case Activation::kHardSwish:
      return FindUnaryKernel("HardSwish", type);
    default:
      return nullptr;
  }
}

}  // namespace

Result<Finish> PlanFinish(DataType from, DataType to, const Epilogue& epilogue, int64_t outer, int64_t channels,
                          int64_t inner) {
  if (FindLauncher(from, to) == nullptr) {
    return NotSupported("an epilogue from ", DataTypeName(from), " to ", DataTypeName(to));
  }
  Finish finish{.from = from, .to = to, .epilogue = epilogue};
  if (from == to) finish.alone = FindAlone(to, epilogue);
  const Shape whole{outer, channels, inner}, channel{channels, 1}, none;
  CUDAEP_ASSIGN_OR_RETURN(finish.broadcast,
                          MakeBroadcast<3>(whole, {whole.dims(), (epilogue.bias ? channel : none).dims(),
                                                   (epilogue.residual() ? whole : none).dims()}));
  return finish;
}

Status LaunchFinish(const Finish& finish, const void* sums, const void* bias, const void* residual, void* result,
                    device::Stream stream) {
  if (finish.alone != nullptr) {
    return finish.alone({.x = sums, .y = result, .elems = finish.broadcast.elems}, stream);
  }
  return FindLauncher(finish.from, finish.to)(finish, sums, bias, residual, result, stream);
}

}  // namespace cudaep::kernels
