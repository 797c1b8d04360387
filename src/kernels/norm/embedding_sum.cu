#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/norm/embedding_sum.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128, kWarp = 32;

template <class T, int kPack>
__device__ __forceinline__ void AddRow(const EmbeddingTable& table, int64_t token, int64_t width, int64_t column,
                                       ComputeType<T>* sum) {
  if (table.rows == nullptr) return;
  const int64_t place = token % table.period;
  const int64_t id = table.ids != nullptr ? table.ids[place] : place;
  if (id < 0 || id >= table.count) return;
  ComputeType<T> value[kPack];
  UnpackCompute<T, kPack>(LoadRaw<kPack>(static_cast<const T*>(table.rows) + id * width + column), value);
#pragma unroll
  for (int k = 0; k < kPack; ++k) sum[k] += value[k];
}

// A block for each token.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads) EmbeddingSumKernel(const __grid_constant__ EmbeddingSumArgs args) {
  device::GridDependencyWait();
  const int64_t token = blockIdx.x;
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * kPack; column < args.width;
       column += static_cast<int64_t>(blockDim.x) * kPack) {
    ComputeType<T> sum[kPack] = {};
    AddRow<T, kPack>(args.word, token, args.width, column, sum);
    AddRow<T, kPack>(args.position, token, args.width, column, sum);
    AddRow<T, kPack>(args.segment, token, args.width, column, sum);
    const int64_t at = token * args.width + column;
#pragma unroll
    for (int k = 0; k < kPack; ++k) static_cast<ComputeType<T>*>(args.sum)[at + k] = sum[k];
    if (args.rounded != nullptr) {
      StoreWords<kPack>(static_cast<T*>(args.rounded) + at, PackCompute<T, kPack>(sum));
    }
  }
}

template <class T, int kPack>
Status LaunchVariant(const EmbeddingSumArgs& args, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(args.tokens);
  config.block.x =
      static_cast<unsigned>(std::clamp<int64_t>(CeilDiv<int64_t>(args.width / kPack, kWarp) * kWarp, kWarp, kThreads));
  config.programmatic = true;
  return device::Launch(EmbeddingSumKernel<T, kPack>, config, stream, args);
}

__global__ void __launch_bounds__(kWarp) CountOnesKernel(const int32_t* mask, int64_t length, int32_t* counts) {
  device::GridDependencyWait();
  const int32_t* row = mask + blockIdx.x * length;
  int count = 0;
  for (int64_t i = threadIdx.x; i < length; i += kWarp) count += row[i] == 1 ? 1 : 0;
  count = device::WarpReduce(count, [](int a, int b) { return a + b; });
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

}  // namespace

Status LaunchEmbeddingSum(const EmbeddingSumArgs& args, device::Stream stream) {
  if (args.tokens == 0 || args.width == 0) return Status::Ok();
  if (args.tokens > INT32_MAX) return NotSupported("embeddings of ", args.tokens, " tokens");
  return VisitType<kFloatTypes>(args.type, NotSupported("embeddings of ", DataTypeName(args.type)), [&]<class T>() {
    constexpr int kPack = PackElems(sizeof(T));
    const bool aligned = IsAligned(args.word.rows, kPackBytes) && IsAligned(args.position.rows, kPackBytes) &&
                         IsAligned(args.segment.rows, kPackBytes) && IsAligned(args.rounded, kPackBytes);
    return aligned && args.width % kPack == 0 ? LaunchVariant<T, kPack>(args, stream)
                                              : LaunchVariant<T, 1>(args, stream);
  });
}

Status LaunchCountOnes(const int32_t* mask, int64_t rows, int64_t length, int32_t* counts, device::Stream stream) {
  if (rows == 0) return Status::Ok();
  if (rows > INT32_MAX) return NotSupported("a mask of ", rows, " rows");
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(rows);
  config.block.x = kWarp;
  config.programmatic = true;
  return device::Launch(CountOnesKernel, config, stream, mask, length, counts);
}

}  // namespace cudaep::kernels
