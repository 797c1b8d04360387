// Normalisation of rows of any length: each element is read twice.
#pragma once

#include "kernels/common/moments.cuh"
#include "kernels/common/row_plan.h"
#include "kernels/common/row_reduce.cuh"
#include "kernels/norm/layer_norm_input.cuh"

namespace cudaep::kernels {

// One row for each block, read twice.
template <class T, class V, int kPack>
__global__ void __launch_bounds__(kStreamThreads)
    LayerNormStreamKernel(const __grid_constant__ LayerNormInput<T, V> in, const LayerNormOutput<T> out) {
  using C = ComputeType<T>;
  constexpr int kInFlight = kPack == 1 ? 8 : 4;  // independent loads of a thread, to cover the latency of memory
  __shared__ C mean_scratch[kMaxRowWarps];
  __shared__ C square_scratch[kMaxRowWarps];
  device::GridDependencyWait();
  const int64_t row = blockIdx.x;
  const T* const x = in.x + row * in.elems;
  const T* const skip = in.skip == nullptr ? nullptr : in.skip + row % in.skip_rows * in.elems;
  const auto load = [&](int pack) { return LoadRaw<kPack>(x + static_cast<int64_t>(pack) * kPack); };
  // x + skip + bias of one pack, whose x is there.
  const auto compute = [&](const RawPack<T, kPack>& raw, int pack, C* value) {
    const int column = pack * kPack;
    UnpackCompute<T, kPack>(raw, value);
    for (const T* const more : {skip, in.bias}) {
      if (more == nullptr) continue;
      C term[kPack];
      UnpackCompute<T, kPack>(LoadRaw<kPack>(more + column), term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) value[k] += term[k];
    }
  };
  const int step = static_cast<int>(blockDim.x), first = static_cast<int>(threadIdx.x);
  const int whole = in.row_packs / (kInFlight * step) * (kInFlight * step);  // packs in full rounds
  C value[kInFlight][kPack];
  RawPack<T, kPack> raw[kInFlight];

  Moments<C> moments;
  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) raw[j] = load(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) compute(raw[j], pack + j * step, value[j]);
    moments.template Add<kInFlight * kPack>(value[0], in.centred());
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    compute(load(pack), pack, value[0]);
    moments.template Add<kPack>(value[0], in.centred());
  }
  const C elems = static_cast<C>(in.elems);
  C mean = 0;
  if (!in.centred()) {
    // The second sum makes the mean of equal means exact; an element far from all others spoils neither.
    const C share = moments.count / elems;
    const C rough = RowReduce(moments.mean * share, AddOp(), mean_scratch);
    mean = rough + RowReduce((moments.mean - rough) * share, AddOp(), square_scratch);
  }
  const C delta = moments.mean - mean;
  const C squares = RowReduce(moments.squares + moments.count * delta * delta, AddOp(), mean_scratch);
  const C inv_std = InverseOf<T>(in.statistic, squares, C(1) / elems, in.epsilon);
  if (threadIdx.x == 0) {
    WriteStatistic(in, out.mean, row, mean);
    WriteStatistic(in, out.inv_std, row, inv_std);
  }

  const AffineRows<V> affine(in, row);
  const auto write = [&](int pack, const C(&values)[kPack]) {
    const int column = pack * kPack;
    PackAffine<kPack, V> by;
    by.template Load<AffineForm::kMixed>(in, affine, column);
    if (out.sum != nullptr) StoreWords<kPack>(out.sum + row * in.elems + column, PackCompute<T, kPack>(values));
    StoreWords<kPack>(static_cast<V*>(out.y) + row * in.elems + column, by.Apply(values, mean, inv_std));
  };
  for (int pack = first; pack < whole; pack += kInFlight * step) {
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) raw[j] = load(pack + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) compute(raw[j], pack + j * step, value[j]);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) write(pack + j * step, value[j]);
  }
  for (int pack = whole + first; pack < in.row_packs; pack += step) {
    compute(load(pack), pack, value[0]);
    write(pack, value[0]);
  }
}

}  // namespace cudaep::kernels
