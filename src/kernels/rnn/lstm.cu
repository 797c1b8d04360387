#include "kernels/rnn/rnn_step.cuh"

namespace cudaep::kernels {
namespace {

// Gates lie as i, o, f, c.
template <class T>
__device__ __forceinline__ void LstmElement(const RnnElement<T>& e) {
  using C = ComputeType<T>;
  const RnnArgs<T>& args = e.args;
  const int64_t length = e.Length(), position = e.Position(length), state = e.State();
  const bool last = args.step + 1 == args.shape.steps;
  if (args.step >= length) {
    e.WriteHidden(position, Store<T>(C(0)), args.h[state]);
    if (last && args.y_c != nullptr) args.y_c[e.FinalState()] = Store<T>(args.c[state]);
    return;
  }
  const auto peephole = [&](int gate) {
    if (args.peephole == nullptr) return C(0);
    return Load(args.peephole[(e.direction * 3 + gate) * args.shape.hidden + e.unit]);
  };
  const auto sum = [&](int gate) {
    return e.X(position, gate, 4) + e.H(gate, 4) + (e.Bias(0, gate, 4) + e.Bias(1, gate, 4));
  };
  const C before = args.c[state];
  const C i = e.Function(0, e.Clipped(sum(0) + peephole(0) * before));
  const C f = args.shape.input_forget ? C(1) - i : e.Function(0, e.Clipped(sum(2) + peephole(2) * before));
  const C c = f * before + i * e.Function(1, e.Clipped(sum(3)));
  const C o = e.Function(0, e.Clipped(sum(1) + peephole(1) * c));
  const T h = Store<T>(o * e.Function(2, c));
  args.c[state] = c;
  args.h[state] = h;
  e.WriteHidden(position, h, h);
  if (last && args.y_c != nullptr) args.y_c[e.FinalState()] = Store<T>(c);
}

template <class T>
__global__ void __launch_bounds__(kRnnThreads) LstmKernel(__grid_constant__ const RnnArgs<T> args) {
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) { LstmElement(e); });
}

template <class T>
__global__ void __launch_bounds__(kRnnThreads) StartKernel(__grid_constant__ const RnnArgs<T> args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) {
    const RnnArgs<T>& a = e.args;
    const bool runs = e.Length() > 0;
    const T h = runs && a.initial_h != nullptr ? a.initial_h[e.FinalState()] : Store<T>(C(0));
    const T c = runs && a.initial_c != nullptr ? a.initial_c[e.FinalState()] : Store<T>(C(0));
    a.h[e.State()] = h;
    if (a.c != nullptr) a.c[e.State()] = Load(c);
    if (a.shape.steps != 0) return;
    if (a.y_h != nullptr) a.y_h[e.FinalState()] = h;
    if (a.y_c != nullptr) a.y_c[e.FinalState()] = c;
  });
}

}  // namespace

Status LaunchRnnStart(const RnnShape& shape, DataType type, const RnnPointers& at, device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, 0, stream, [&]<class T>() { return &LaunchRnnAs<T, StartKernel<T>>; });
}

Status LaunchLstmStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step,
                      device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, step, stream, [&]<class T>() { return &LaunchRnnAs<T, LstmKernel<T>>; });
}

}  // namespace cudaep::kernels
