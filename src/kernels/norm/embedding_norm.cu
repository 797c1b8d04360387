// Embeddings and their normalisation at once: the registers of a block hold the row of a token.
#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/norm/embedding_rows.cuh"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kMostScalars = 16;  // of a thread, where elements are accessed one by one
constexpr int64_t kMostWidth = int64_t{kMostScalars} * kNormThreads;

// A row is cut into pieces of a warp, whose packs are neighbours.
template <class T, int kPack, int kPacks>
__global__ void __launch_bounds__(kNormThreads)
    EmbeddingNormKernel(const __grid_constant__ EmbeddingArgs args, const EmbeddingNorm norm) {
  using C = ComputeType<T>;
  __shared__ PartMoments<C> part[kNormThreads / kWarp];
  const unsigned parts = blockDim.x / kWarp, own_part = threadIdx.x / kWarp;
  const auto row_packs = static_cast<int>(args.width / kPack);
  const int piece = static_cast<int>(own_part) * kWarp * kPacks, first = piece + static_cast<int>(threadIdx.x % kWarp);
  const auto has = [&](int j) { return first + j * kWarp < row_packs; };
  const auto column_of = [&](int j) { return (first + j * kWarp) * kPack; };
  const bool centred = norm.statistic == RowStatistic::kRms;

  device::GridDependencyWait();
  const int64_t at = blockIdx.x * args.width;
  C value[kPacks][kPack] = {};
  EmbeddingRows<T>(args, blockIdx.x).AddTo(value, first * kPack, kWarp * kPack, has);
  if (args.sum != nullptr) {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (has(j)) StoreWords<kPack>(static_cast<T*>(args.sum) + at + column_of(j), PackCompute<T, kPack>(value[j]));
    }
  }

  const int part_packs = device::Min(device::Max(row_packs - piece, 0), kWarp * kPacks);
  C mean, squares;
  PieceMoments<kPacks>(value, has, part_packs, kWarp, centred, mean, squares);
  const C inverse_elems = C(1) / static_cast<C>(args.width);
  if (parts > 1) {
    const unsigned rounded = (parts + 3) / 4 * 4;
    if (threadIdx.x % kWarp == 0) part[own_part] = {static_cast<C>(part_packs * kPack), mean, squares, C(0)};
    if (threadIdx.x < rounded - parts) part[parts + threadIdx.x] = {};
    __syncthreads();
    MergeParts(part, rounded, inverse_elems, centred, mean, squares);
  }
  const C inv_std = InverseOf<T>(norm.statistic, squares, inverse_elems, static_cast<C>(norm.epsilon));
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    if (!has(j)) continue;
    C factor[kPack], term[kPack] = {}, y[kPack];
    UnpackCompute<T, kPack>(LoadRaw<kPack>(static_cast<const T*>(norm.scale) + column_of(j)), factor);
    if (norm.beta != nullptr) {
      UnpackCompute<T, kPack>(LoadRaw<kPack>(static_cast<const T*>(norm.beta) + column_of(j)), term);
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) y[k] = (value[j][k] - mean) * inv_std * factor[k] + term[k];
    StoreWords<kPack>(static_cast<T*>(norm.y) + at + column_of(j), PackCompute<T, kPack>(y));
  }
}

template <class T, int kPack, int kPacks>
Status LaunchVariant(const EmbeddingArgs& args, const EmbeddingNorm& norm, device::Stream stream) {
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(args.tokens);
  config.block.x = static_cast<unsigned>(CeilDiv<int64_t>(args.width / kPack, kPacks * kWarp) * kWarp);
  config.programmatic = true;
  return device::Launch(EmbeddingNormKernel<T, kPack, kPacks>, config, stream, args, norm);
}

}  // namespace

bool FitsEmbeddingNorm(DataType type, int64_t width) {
  return kFloatTypesNoDouble.Contains(type) && width <= kMostWidth;
}

Status LaunchEmbeddingNorm(const EmbeddingArgs& args, const EmbeddingNorm& norm, device::Stream stream) {
  if (args.tokens == 0 || args.width == 0) return Status::Ok();
  if (args.tokens > INT32_MAX) return NotSupported("embeddings of ", args.tokens, " tokens");
  const Status unknown = NotSupported("embeddings of ", DataTypeName(args.type));
  return VisitType<kFloatTypesNoDouble>(args.type, unknown, [&]<class T>() {
    constexpr int kPack = PackElems(sizeof(T));
    if (!AllowsPacks(args, kPack, norm.scale, norm.beta, norm.y)) {
      return args.width <= kNormThreads ? LaunchVariant<T, 1, 1>(args, norm, stream)
                                        : LaunchVariant<T, 1, kMostScalars>(args, norm, stream);
    }
    return args.width <= int64_t{kPack} * kNormThreads ? LaunchVariant<T, kPack, 1>(args, norm, stream)
                                                       : LaunchVariant<T, kPack, kNormPacks>(args, norm, stream);
  });
}

}  // namespace cudaep::kernels
