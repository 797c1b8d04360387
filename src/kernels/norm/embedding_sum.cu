#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/norm/embedding_rows.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128, kWarp = 32;

// A block for each token.
template <class T, int kPack>
__global__ void __launch_bounds__(kThreads)
    EmbeddingSumKernel(const __grid_constant__ EmbeddingArgs args, ComputeType<T>* wide_sum) {
  device::GridDependencyWait();
  const EmbeddingRows<T> rows(args, blockIdx.x);
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * kPack; column < args.width;
       column += static_cast<int64_t>(blockDim.x) * kPack) {
    ComputeType<T> sum[1][kPack] = {};
    rows.AddTo(sum, column, 0, [](int) { return true; });
    const int64_t at = blockIdx.x * args.width + column;
    if (wide_sum != nullptr) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) wide_sum[at + k] = sum[0][k];
    }
    if (args.sum != nullptr) StoreWords<kPack>(static_cast<T*>(args.sum) + at, PackCompute<T, kPack>(sum[0]));
  }
}

template <class T, int kPack>
Status LaunchVariant(const EmbeddingArgs& args, void* wide_sum, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(args.tokens);
  config.block.x =
      static_cast<unsigned>(std::clamp<int64_t>(CeilDiv<int64_t>(args.width / kPack, kWarp) * kWarp, kWarp, kThreads));
  config.programmatic = true;
  return device::Launch(EmbeddingSumKernel<T, kPack>, config, stream, args, static_cast<ComputeType<T>*>(wide_sum));
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

Status LaunchEmbeddingSum(const EmbeddingArgs& args, void* wide_sum, device::Stream stream) {
  if (args.tokens == 0 || args.width == 0) return Status::Ok();
  if (args.tokens > INT32_MAX) return NotSupported("embeddings of ", args.tokens, " tokens");
  return VisitType<kFloatTypes>(args.type, NotSupported("embeddings of ", DataTypeName(args.type)), [&]<class T>() {
    constexpr int kPack = PackElems(sizeof(T));
    return AllowsPacks(args, kPack) ? LaunchVariant<T, kPack>(args, wide_sum, stream)
                                    : LaunchVariant<T, 1>(args, wide_sum, stream);
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
