#include <algorithm>
#include <bit>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/common/row_reduce.cuh"
#include "kernels/index_limit.h"
#include "kernels/movement/index_tuples.cuh"
#include "kernels/reduce/segment_reduce.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 8;  // of a thread at once: all indices and then all rows are asked for before any is waited for

// Of a list, by ONNX's rule for Slice.
__device__ __forceinline__ int64_t CutPosition(int64_t position, int64_t length) {
  if (position < 0) position += length;
  return position < 0 ? 0 : position < length ? position : length;
}

// Columns of a segment, `kPack` of each row.
template <class T, int kPack, bool kMax>
struct SegmentColumns {
  const SegmentReduceArgs& args;
  float value[kPack];

  __device__ __forceinline__ explicit SegmentColumns(const SegmentReduceArgs& a) : args(a) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) value[k] = kMax ? NegativeInfinity<float>() : 0.f;
  }

  // Elements [first, first + kRows) of the list, as far as they are before `last`.
  __device__ __forceinline__ void Add(int64_t first, int64_t last, int64_t column) {
    int64_t at[kRows], row[kRows];
    float weight[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) at[j] = first + j < last ? first + j : last - 1;
    ReadRows(at, row);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      weight[j] =
          args.weights == nullptr ? 1.f : Load(static_cast<const T*>(args.weights)[args.one_weight ? 0 : at[j]]);
    }
    RawPack<T, kPack> raw[kRows] = {};
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (row[j] >= 0 && first + j < last)
        raw[j] = LoadRaw<kPack>(static_cast<const T*>(args.rows) + row[j] * args.width + column);
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (first + j >= last) break;
      float term[kPack];
      UnpackCompute<T, kPack>(raw[j], term);
#pragma unroll
      for (int k = 0; k < kPack; ++k) AddOne(k, args.weights == nullptr ? term[k] : term[k] * weight[j]);
    }
  }
  // Of elements of the list; -1: a row of zeros.
  __device__ __forceinline__ void ReadRows(const int64_t (&at)[kRows], int64_t (&row)[kRows]) const {
    int64_t number[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) row[j] = number[j] = args.one_index ? 0 : at[j];
    if (args.indices.pointer == nullptr) return;
    ReadIndices(args.indices, number, row);
#pragma unroll
    for (int j = 0; j < kRows; ++j) row[j] = WithinAxis(row[j], args.row_count);
  }
  __device__ __forceinline__ void AddOne(int k, float term) {
    if constexpr (kMax) {
      value[k] = value[k] < term || term != term ? term : value[k];
    } else {
      value[k] += term;
    }
  }
};

// A row of threads for each segment, which go along its columns.
template <class T, int kPack, bool kMax>
__global__ void __launch_bounds__(kThreads) SegmentReduceKernel(const __grid_constant__ SegmentReduceArgs args) {
  device::GridDependencyWait();
  for (int64_t segment = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; segment < args.segments;
       segment += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    const int64_t start = ReadIndex(args.starts, segment);
    const int64_t end = segment == args.tail_segment ? args.tail : ReadIndex(args.ends, segment);
    const int64_t first = CutPosition(start, args.length), last = CutPosition(end, args.length);
    const bool is_last = args.counted >= 0 && segment == args.segments - 1;
    const int64_t count = is_last ? args.counted - start : last - first;
    const bool zero = args.empty_is_zero && start == end;
    for (int64_t column = static_cast<int64_t>(threadIdx.x) * kPack; column < args.width;
         column += static_cast<int64_t>(blockDim.x) * kPack) {
      SegmentColumns<T, kPack, kMax> columns(args);
      for (int64_t i = first; i < last; i += kRows) columns.Add(i, last, column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (!kMax && args.reduction == SegmentReduction::kMean && count > 0)
          columns.value[k] /= static_cast<float>(count);
        if (zero) columns.value[k] = 0.f;
      }
      StoreWords<kPack>(static_cast<T*>(args.y) + segment * args.width + column, PackCompute<T, kPack>(columns.value));
    }
  }
}

template <class T, int kPack>
Status LaunchVariant(const SegmentReduceArgs& args, device::Stream stream) {
  device::LaunchConfig config;
  config.block.x =
      std::bit_ceil(static_cast<unsigned>(std::min<int64_t>(kThreads, CeilDiv<int64_t>(args.width, kPack))));
  config.block.y = kThreads / config.block.x;
  config.grid.x =
      static_cast<unsigned>(std::min<int64_t>(CeilDiv<int64_t>(args.segments, config.block.y), index_limit));
  config.programmatic = true;
  return args.reduction == SegmentReduction::kMax
             ? device::Launch(SegmentReduceKernel<T, kPack, true>, config, stream, args)
             : device::Launch(SegmentReduceKernel<T, kPack, false>, config, stream, args);
}

}  // namespace

Status LaunchSegmentReduce(const SegmentReduceArgs& args, device::Stream stream) {
  if (args.segments == 0 || args.width == 0) return Status::Ok();
  const Status other = NotSupported("segments of ", DataTypeName(args.type));
  return VisitType<kFloatTypesNoDouble>(args.type, other, [&]<class T>() {
    constexpr int kPack = PackElems(sizeof(T));
    const bool packs = args.width % kPack == 0 && IsAligned(args.rows, kPackBytes) && IsAligned(args.y, kPackBytes);
    return packs ? LaunchVariant<T, kPack>(args, stream) : LaunchVariant<T, 1>(args, stream);
  });
}

}  // namespace cudaep::kernels
