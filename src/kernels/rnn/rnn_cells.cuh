// The arithmetic of each cell. `Load` takes what no step before has a part in; `Step` adds the products with the state.
#pragma once

#include "kernels/rnn/rnn_step.cuh"

namespace cudaep::kernels {

// An element's state before the step.
template <class T>
struct RnnState {
  T h;
  ComputeType<T> c;

  static __device__ __forceinline__ RnnState Load(const RnnElement<T>& e) {
    const int64_t at = e.State();
    return {e.args.h[at], e.args.c == nullptr ? ComputeType<T>(0) : e.args.c[at]};
  }
};

// Gates lie as i, o, f, c.
template <class T>
struct LstmCell {
  using C = ComputeType<T>;
  static constexpr int kProducts = 4;
  struct Inputs {
    C gate[4], peephole[3];
  };

  static __device__ __forceinline__ Inputs Load(const RnnElement<T>& e) {
    Inputs in;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) in.gate[gate] = e.X(gate, 4) + (e.Bias(0, gate, 4) + e.Bias(1, gate, 4));
    const T* const peephole = e.args.peephole;
#pragma unroll
    for (int gate = 0; gate < 3; ++gate) {
      in.peephole[gate] =
          peephole == nullptr ? C(0) : cudaep::Load(peephole[(e.direction * 3 + gate) * e.args.shape.hidden + e.unit]);
    }
    return in;
  }

  static __device__ __forceinline__ void Step(const RnnElement<T>& e, const Inputs& in, const RnnState<T>& before,
                                              const C (&product)[kProducts]) {
    const RnnArgs<T>& args = e.args;
    T y = Store<T>(C(0)), h = before.h;
    C c = before.c;
    if (!e.Done()) {
      const C i = e.Function(0, e.Clipped(in.gate[0] + product[0] + in.peephole[0] * before.c));
      const C f = args.shape.input_forget
                      ? C(1) - i
                      : e.Function(0, e.Clipped(in.gate[2] + product[2] + in.peephole[2] * before.c));
      c = f * before.c + i * e.Function(1, e.Clipped(in.gate[3] + product[3]));
      const C o = e.Function(0, e.Clipped(in.gate[1] + product[1] + in.peephole[1] * c));
      y = h = Store<T>(o * e.Function(2, c));
      args.c[e.State()] = c;
    }
    e.WriteHidden(y, h);
    if (e.Last() && args.y_c != nullptr) args.y_c[e.FinalState()] = Store<T>(c);
  }
};

// Gates lie as z, r, h, each with two biases; that of the state's product with h is scaled by r too.
template <class T>
struct GruInputs {
  using C = ComputeType<T>;
  C gate[3], state_bias;

  // Those of gates from `first` to before `last`.
  static __device__ __forceinline__ GruInputs Load(const RnnElement<T>& e, int first, int last) {
    GruInputs in = {};
#pragma unroll
    for (int gate = 0; gate < 3; ++gate) {
      if (gate < first || gate >= last) continue;
      in.gate[gate] = e.X(gate, 3) + (gate == 2 ? e.Bias(0, 2, 3) : e.Bias(0, gate, 3) + e.Bias(1, gate, 3));
    }
    if (last == 3) in.state_bias = e.Bias(1, 2, 3);
    return in;
  }
};

template <class T>
__device__ __forceinline__ void FinishGru(const RnnElement<T>& e, const GruInputs<T>& in, const RnnState<T>& before,
                                          ComputeType<T> z, ComputeType<T> carried) {
  using C = ComputeType<T>;
  if (e.Done()) return e.WriteHidden(Store<T>(C(0)), before.h);
  const C proposed = e.Function(1, e.Clipped(in.gate[2] + carried));
  const T h = Store<T>((C(1) - z) * proposed + z * Load(before.h));
  e.WriteHidden(h, h);
}

// linear_before_reset: all products at once.
template <class T>
struct GruCell {
  using C = ComputeType<T>;
  static constexpr int kProducts = 3;
  using Inputs = GruInputs<T>;

  static __device__ __forceinline__ Inputs Load(const RnnElement<T>& e) { return Inputs::Load(e, 0, 3); }
  static __device__ __forceinline__ void Step(const RnnElement<T>& e, const Inputs& in, const RnnState<T>& before,
                                              const C (&product)[kProducts]) {
    const C z = e.Function(0, e.Clipped(in.gate[0] + product[0]));
    const C r = e.Function(0, e.Clipped(in.gate[1] + product[1]));
    FinishGru(e, in, before, z, r * (product[2] + in.state_bias));
  }
};

// Reset first: z, kept as c, and r * h, which the second product takes.
template <class T>
struct GruResetCell {
  using C = ComputeType<T>;
  static constexpr int kProducts = 2;
  using Inputs = GruInputs<T>;

  static __device__ __forceinline__ Inputs Load(const RnnElement<T>& e) { return Inputs::Load(e, 0, 2); }
  static __device__ __forceinline__ void Step(const RnnElement<T>& e, const Inputs& in, const RnnState<T>& before,
                                              const C (&product)[kProducts]) {
    T reset = before.h;
    if (!e.Done()) {
      e.args.c[e.State()] = e.Function(0, e.Clipped(in.gate[0] + product[0]));
      reset = Store<T>(e.Function(0, e.Clipped(in.gate[1] + product[1])) * cudaep::Load(before.h));
    }
    if (e.args.reset_h != nullptr) e.args.reset_h[e.State()] = reset;
    e.args.rows.Set(e.direction, e.row, e.unit, reset);
  }
};

// What follows: before.c is z.
template <class T>
struct GruProposalCell {
  using C = ComputeType<T>;
  static constexpr int kProducts = 1;
  using Inputs = GruInputs<T>;

  static __device__ __forceinline__ Inputs Load(const RnnElement<T>& e) { return Inputs::Load(e, 2, 3); }
  static __device__ __forceinline__ void Step(const RnnElement<T>& e, const Inputs& in, const RnnState<T>& before,
                                              const C (&product)[kProducts]) {
    FinishGru(e, in, before, before.c, product[0] + in.state_bias);
  }
};

template <class T>
struct PlainCell {
  using C = ComputeType<T>;
  static constexpr int kProducts = 1;
  struct Inputs {
    C sum;
  };

  static __device__ __forceinline__ Inputs Load(const RnnElement<T>& e) {
    return {e.X(0, 1) + (e.Bias(0, 0, 1) + e.Bias(1, 0, 1))};
  }
  static __device__ __forceinline__ void Step(const RnnElement<T>& e, const Inputs& in, const RnnState<T>& before,
                                              const C (&product)[kProducts]) {
    if (e.Done()) return e.WriteHidden(Store<T>(C(0)), before.h);
    const T h = Store<T>(e.Function(0, e.Clipped(in.sum + product[0])));
    e.WriteHidden(h, h);
  }
};

// A step of which the products are there. All loads come before the first activation: those have branches, across which
// the compiler moves none, and each would wait for the one before.
template <template <class> class Cell, class T>
__global__ void __launch_bounds__(kRnnThreads) RnnGatesKernel(__grid_constant__ const RnnArgs<T> args) {
  device::GridDependencyWait();
  ForEachRnnElement(args, [](const RnnElement<T>& e) {
    ComputeType<T> product[Cell<T>::kProducts];
#pragma unroll
    for (int i = 0; i < Cell<T>::kProducts; ++i) product[i] = e.H(i, Cell<T>::kProducts);
    const auto in = Cell<T>::Load(e);
    Cell<T>::Step(e, in, RnnState<T>::Load(e), product);
  });
}

template <template <class> class Cell>
Status LaunchRnnGates(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step,
                      device::Stream stream) {
  return LaunchRnnKernel(shape, type, at, step, stream,
                         [&]<class T>() { return &LaunchRnnAs<T, RnnGatesKernel<Cell, T>>; });
}

}  // namespace cudaep::kernels
