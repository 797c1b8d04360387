// What the kernels of normalisation of segments read, and what they do with a chunk: a warp's part of a piece of a
// segment, kLongChunk packs for each lane.
#pragma once

#include <type_traits>

#include "kernels/common/moments.cuh"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/segment_cut.h"
#include "kernels/norm/segment_norm.h"

namespace cudaep::kernels {

template <class T>
struct SegmentInput {
  const T* x;
  const T* scale;
  const T* bias;
  int64_t rows;
  SegmentCut cut;
  FastDivider affine_rows;
  int32_t affine_segments;  // of a row, or 0 where all share a scale
  double epsilon, elems;
  uint32_t team;
  RowStatistic statistic;

  __device__ __forceinline__ bool centred() const {
    return statistic == RowStatistic::kRms || statistic == RowStatistic::kL2;
  }
};

template <class T>
SegmentInput<T> MakeSegmentInput(const SegmentNormArgs& args, int pack) {
  const SegmentedRows& rows = args.rows;
  return {.x = static_cast<const T*>(args.x),
          .scale = static_cast<const T*>(args.scale),
          .bias = static_cast<const T*>(args.bias),
          .rows = rows.rows(),
          .cut = SegmentCut::Of(rows.segments, rows.inner, rows.length / pack),
          .affine_rows = FastDivider(static_cast<uint32_t>(args.affine_rows)),
          .affine_segments = args.affine_segments ? static_cast<int32_t>(rows.segments) : 0,
          .epsilon = args.epsilon,
          .elems = static_cast<double>(rows.elems()),
          .team = args.plan->team,
          .statistic = args.statistic};
}

// Packs of the calling lane and those behind it in a chunk of `packs`: its own are every 32nd, from the first on.
__device__ __forceinline__ int LanePacks(int packs) { return packs - static_cast<int>(threadIdx.x % 32); }

template <class T, int kPack, class C>
__device__ __forceinline__ void AddChunk(Moments<C>& moments, const RawPack<T, kPack> (&raw)[kLongChunk], int left,
                                         bool centred) {
  if (left > (kLongChunk - 1) * 32) {
    C value[kLongChunk][kPack];
#pragma unroll
    for (int j = 0; j < kLongChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
    moments.template Add<kLongChunk * kPack>(value[0], centred);
    return;
  }
#pragma unroll
  for (int j = 0; j < kLongChunk; ++j) {
    if (j * 32 >= left) break;
    C value[kPack];
    UnpackCompute<T, kPack>(raw[j], value);
    moments.template Add<kPack>(value, centred);
  }
}

// Scale and shift of a chunk: those of its segment.
template <class T>
struct SegmentAffine {
  ComputeType<T> scale = 1, bias = 0;

  template <class Piece>
  __device__ __forceinline__ void Fetch(const SegmentInput<T>& in, const Piece& piece, int64_t row, int chunk) {
    if (in.scale == nullptr || piece.PiecePacks(chunk) <= 0) return;
    uint32_t index;
    in.affine_rows.DivideWithRemainder(static_cast<uint32_t>(row), &index);
    const int64_t first = static_cast<int64_t>(index) * device::Max(in.affine_segments, 1);
    int64_t at = first;
    if constexpr (std::is_same_v<Piece, SegmentPiece>) {
      if (in.affine_segments != 0) at += piece.Segment(chunk);
    }
    scale = Load(in.scale[at]);
    if (in.bias != nullptr) bias = Load(in.bias[at]);
  }
};

// `to`: of the lane's first pack.
template <class T, int kPack, class C>
__device__ __forceinline__ void StoreChunk(T* to, const RawPack<T, kPack> (&raw)[kLongChunk], int left, C mean,
                                           C inv_std, const SegmentAffine<T>& by) {
#pragma unroll
  for (int j = 0; j < kLongChunk; ++j) {
    if (j * 32 >= left) continue;
    C value[kPack];
    UnpackCompute<T, kPack>(raw[j], value);
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] = (value[k] - mean) * inv_std * by.scale + by.bias;
    StoreWords<kPack>(to + j * 32 * kPack, PackCompute<T, kPack>(value));
  }
}

}  // namespace cudaep::kernels
