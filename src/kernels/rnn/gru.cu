#include "kernels/rnn/rnn_step.cuh"

namespace cudaep::kernels {
namespace {

// Gates lie as z, r, h. The state's product has all of them where the reset comes after it, else the first two.
template <class T>
__device__ __forceinline__ ComputeType<T> Gate(const RnnElement<T>& e, int64_t position, int gate) {
  const int gates = e.args.shape.linear_before_reset ? 3 : 2;
  const auto bias = e.Bias(0, gate, 3) + e.Bias(1, gate, 3);
  return e.Function(0, e.Clipped(e.X(position, gate, 3) + e.H(gate, gates) + bias));
}

template <class T>
__global__ void __launch_bounds__(kRnnThreads) ResetKernel(__grid_constant__ const RnnArgs<T> args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) {
    const RnnArgs<T>& a = e.args;
    const int64_t length = e.Length(), position = e.Position(length), state = e.State();
    const bool done = a.step >= length;
    a.c[state] = done ? C(1) : Gate(e, position, 0);
    a.reset_h[state] = done ? a.h[state] : Store<T>(Gate(e, position, 1) * Load(a.h[state]));
  });
}

template <class T>
__device__ __forceinline__ void GruElement(const RnnElement<T>& e) {
  using C = ComputeType<T>;
  const RnnArgs<T>& args = e.args;
  const int64_t length = e.Length(), position = e.Position(length), state = e.State();
  if (args.step >= length) return e.WriteHidden(position, Store<T>(C(0)), args.h[state]);
  C z, carried;
  if (args.shape.linear_before_reset) {
    z = Gate(e, position, 0);
    carried = Gate(e, position, 1) * (e.H(2, 3) + e.Bias(1, 2, 3));
  } else {
    z = args.c[state];
    carried = Load(args.reset_product[state]) + e.Bias(1, 2, 3);
  }
  const C proposed = e.Function(1, e.Clipped(e.X(position, 2, 3) + carried + e.Bias(0, 2, 3)));
  const T h = Store<T>((C(1) - z) * proposed + z * Load(args.h[state]));
  args.h[state] = h;
  e.WriteHidden(position, h, h);
}

template <class T>
__global__ void __launch_bounds__(kRnnThreads) GruKernel(__grid_constant__ const RnnArgs<T> args) {
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) { GruElement(e); });
}

}  // namespace

Status LaunchGruReset(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step,
                      device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, step, stream, [&]<class T>() { return &LaunchRnnAs<T, ResetKernel<T>>; });
}

Status LaunchGruStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, step, stream, [&]<class T>() { return &LaunchRnnAs<T, GruKernel<T>>; });
}

}  // namespace cudaep::kernels
