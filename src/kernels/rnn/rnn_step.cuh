// What the steps of all cells share: places of one element, activations, and how a step is launched.
#pragma once

#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/launch.h"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/rnn/rnn.h"
#include "kernels/rnn/rnn_rows.cuh"

namespace cudaep::kernels {

inline constexpr int kRnnThreads = 128;
inline constexpr int64_t kMostRnnRows = 65535;  // of grid.y

// A step's arguments with the tensors' types.
template <class T>
struct RnnArgs {
  using C = ComputeType<T>;
  RnnShape shape;
  int64_t step;
  const T *x_product, *h_product, *bias, *peephole, *initial_h, *initial_c;
  const int32_t* lengths;
  T *h, *reset_h, *y, *y_h, *y_c;
  C* c;
  RnnRows<T> rows;
};

template <class T>
RnnArgs<T> MakeRnnArgs(const RnnShape& shape, const RnnPointers& at, int64_t step) {
  const auto in = [](const void* p) { return static_cast<const T*>(p); };
  const auto out = [](void* p) { return static_cast<T*>(p); };
  return {.shape = shape,
          .step = step,
          .x_product = in(at.x_product),
          .h_product = in(at.h_product),
          .bias = in(at.bias),
          .peephole = in(at.peephole),
          .initial_h = in(at.initial_h),
          .initial_c = in(at.initial_c),
          .lengths = at.lengths,
          .h = out(at.h),
          .reset_h = out(at.reset_h),
          .y = out(at.y),
          .y_h = out(at.y_h),
          .y_c = out(at.y_c),
          .c = static_cast<ComputeType<T>*>(at.c),
          .rows = RnnRows<T>(shape, at.next_rows, at.rows_are_tf32)};
}

// Out of line: a step has up to five of them.
template <class C>
__device__ __attribute__((noinline)) C ActivateOther(RnnFunction function, C x) {
  const C alpha = static_cast<C>(function.alpha), beta = static_cast<C>(function.beta);
  switch (function.kind) {
    case RnnActivation::kAffine:
      return alpha * x + beta;
    case RnnActivation::kElu:
      return x < C(0) ? alpha * std::expm1(x) : x;
    case RnnActivation::kHardSigmoid:
      return ClampTo(alpha * x + beta, C(0), C(1));
    case RnnActivation::kLeakyRelu:
      return x < C(0) ? alpha * x : x;
    case RnnActivation::kRelu:
      return x < C(0) ? C(0) : x;
    case RnnActivation::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case RnnActivation::kSoftplus:
      return SoftplusOf(x);
    case RnnActivation::kSoftsign:
      return x / (C(1) + std::fabs(x));
    case RnnActivation::kThresholdedRelu:
      return x > alpha || x != x ? x : C(0);
    case RnnActivation::kSigmoid:
    case RnnActivation::kTanh:
      break;
  }
  return x;
}

template <class C>
__device__ __forceinline__ C Activate(const RnnFunction& function, C x) {
  if (function.kind == RnnActivation::kSigmoid) return C(1) / (C(1) + std::exp(-x));
  if (function.kind == RnnActivation::kTanh) return std::tanh(x);
  return ActivateOther(function, x);
}

// One element of the state at one step.
template <class T>
struct RnnElement {
  using C = ComputeType<T>;
  const RnnArgs<T>& args;
  int64_t direction, row, unit;  // row: of the batch
  int64_t length = SequenceLength();
  int64_t position = SequencePosition();  // in the sequence, of the step

  __device__ __forceinline__ int64_t SequenceLength() const {
    if (args.lengths == nullptr) return args.shape.steps;
    return device::Max(device::Min(static_cast<int64_t>(args.lengths[row]), args.shape.steps), int64_t{0});
  }
  __device__ __forceinline__ int64_t SequencePosition() const {
    return args.shape.reverse[direction] && args.step < length ? length - 1 - args.step : args.step;
  }
  // The sequence ended before this step.
  __device__ __forceinline__ bool Done() const { return args.step >= length; }
  __device__ __forceinline__ bool Last() const { return args.step + 1 == args.shape.steps; }
  __device__ __forceinline__ int64_t State() const {
    return (direction * args.shape.batch + row) * args.shape.hidden + unit;
  }
  __device__ __forceinline__ int64_t FinalState() const {
    return direction * args.shape.state_direction + row * args.shape.state_batch + unit;
  }
  __device__ __forceinline__ C X(int gate, int gates) const {
    const int64_t at = position * args.shape.x_step + row * args.shape.x_batch;
    return Load(args.x_product[((at * args.shape.directions + direction) * gates + gate) * args.shape.hidden + unit]);
  }
  __device__ __forceinline__ C H(int gate, int gates) const {
    return Load(args.h_product[((direction * args.shape.batch + row) * gates + gate) * args.shape.hidden + unit]);
  }
  // Of the input's part (0) or the state's (1).
  __device__ __forceinline__ C Bias(int part, int gate, int gates) const {
    if (args.bias == nullptr) return C(0);
    return Load(args.bias[((direction * 2 + part) * gates + gate) * args.shape.hidden + unit]);
  }
  __device__ __forceinline__ C Clipped(C value) const {
    const C limit = static_cast<C>(args.shape.clip);
    return limit > C(0) ? ClampTo(value, -limit, limit) : value;
  }
  __device__ __forceinline__ C Function(int index, C value) const {
    return Activate(args.shape.functions[direction][index], value);
  }
  // The new state, where it is kept and where the next product reads it; Y at the step's position, and behind the last
  // step the final state.
  __device__ __forceinline__ void WriteHidden(T y, T state) const {
    args.h[State()] = state;
    args.rows.Set(direction, row, unit, state);
    if (args.y != nullptr) {
      args.y[position * args.shape.y_step + direction * args.shape.y_direction + row * args.shape.y_batch + unit] = y;
    }
    if (Last() && args.y_h != nullptr) args.y_h[FinalState()] = state;
  }
};

// Calls `element` for every element of the state.
template <class T, class Body>
__device__ __forceinline__ void ForEachRnnElement(const RnnArgs<T>& args, Body&& body) {
  const int64_t unit = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= args.shape.hidden) return;
  const int64_t rows = static_cast<int64_t>(gridDim.y) * blockDim.y;
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < args.shape.batch; row += rows) {
    body(RnnElement<T>{args, static_cast<int64_t>(blockIdx.z), row, unit});
  }
}

inline device::LaunchConfig RnnConfig(const RnnShape& shape) {
  device::LaunchConfig config;
  config.block.x = static_cast<unsigned>(std::min<int64_t>(AlignUp<int64_t>(shape.hidden, 32), kRnnThreads));
  config.block.y = kRnnThreads / config.block.x;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(shape.hidden, config.block.x));
  config.grid.y = static_cast<unsigned>(std::min(CeilDiv<int64_t>(shape.batch, config.block.y), kMostRnnRows));
  config.grid.z = static_cast<unsigned>(shape.directions);
  config.programmatic = true;
  return config;
}

// Launches `kernel` of the type, found by `select`'s operator()<T>().
template <class Select>
Status LaunchRnnKernel(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream,
                       Select&& select) {
  if (shape.batch == 0 || shape.hidden == 0) return Status::Ok();
  using Launcher = Status (*)(const RnnShape&, const RnnPointers&, int64_t, device::Stream);
  const auto launch = VisitType<kRnnTypes, Launcher>(type, nullptr, select);
  if (launch == nullptr) return NotSupported("element type ", DataTypeName(type));
  return launch(shape, at, step, stream);
}

// A kernel of one type as LaunchRnnKernel wants it.
template <class T, void (*kernel)(const RnnArgs<T>)>
Status LaunchRnnAs(const RnnShape& shape, const RnnPointers& at, int64_t step, device::Stream stream) {
  return device::Launch(kernel, RnnConfig(shape), stream, MakeRnnArgs<T>(shape, at, step));
}

}  // namespace cudaep::kernels
