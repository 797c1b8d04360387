#include "kernels/rnn/rnn.h"
#include "kernels/rnn/rnn_cells.cuh"

namespace cudaep::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(kRnnThreads) StartKernel(__grid_constant__ const RnnArgs<T> args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) {
    const RnnArgs<T>& a = e.args;
    const bool runs = e.length > 0;
    const T h = runs && a.initial_h != nullptr ? a.initial_h[e.FinalState()] : Store<T>(C(0));
    const T c = runs && a.initial_c != nullptr ? a.initial_c[e.FinalState()] : Store<T>(C(0));
    a.h[e.State()] = h;
    a.rows.Set(e.direction, e.row, e.unit, h);
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

Status LaunchRnnStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream) {
  return LaunchRnnGates<PlainCell>(shape, type, at, step, stream);
}

}  // namespace cudaep::kernels
