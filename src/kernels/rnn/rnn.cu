#include "kernels/rnn/rnn.h"
#include "kernels/rnn/rnn_step.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__device__ __forceinline__ void PlainElement(const RnnElement<T>& e) {
  using C = ComputeType<T>;
  const int64_t length = e.Length(), position = e.Position(length), state = e.State();
  if (e.args.step >= length) return e.WriteHidden(position, Store<T>(C(0)), e.args.h[state]);
  const C sum = e.X(position, 0, 1) + e.H(0, 1) + (e.Bias(0, 0, 1) + e.Bias(1, 0, 1));
  const T h = Store<T>(e.Function(0, e.Clipped(sum)));
  e.args.h[state] = h;
  e.WriteHidden(position, h, h);
}

template <class T>
__global__ void __launch_bounds__(kRnnThreads) PlainKernel(__grid_constant__ const RnnArgs<T> args) {
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) { PlainElement(e); });
}

}  // namespace

Status LaunchRnnStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, step, stream, [&]<class T>() { return &LaunchRnnAs<T, PlainKernel<T>>; });
}

}  // namespace cudaep::kernels
