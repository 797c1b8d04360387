// Products of up to 8 rows and 2,048 inner elements, whose blocks have few columns and all of the inner dimension: no
// block waits for another, and all weights are in registers before earlier work is done.
//
// A lane's 16 bytes of a row of A or B are operands of products as they are: which element of the inner dimension
// stands where is free as long as both agree (as in kernels/attention/few_queries.cu). Each warp has some chunks of the
// inner dimension, of A too, so nothing is shared but sums.
#include "core/checked_math.h"
#include "device/tensor_core.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/gemm/few_rows.cuh"

namespace cudaep::kernels::few_rows {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kTile = 8;  // columns of an instruction, and rows of A that are there
constexpr int kMostTiles = kMostNarrowColumns / kTile;
constexpr int kPackElems = kFewRowsPack, kLoadElems = 4 * kPackElems;  // of the inner dimension that four lanes load
constexpr int kLoads = 4, kChunk = kLoads * kLoadElems;
constexpr int kChunks = kMostNarrowInner / (kChunk * kWarps);  // of a warp
constexpr int kPair = 2;                                       // columns that a thread finishes
static_assert(kMostNarrowRows == kTile && kChunks * kWarps * kChunk == kMostNarrowInner);

// All of it once of zeros before earlier work is done, as a kernel of a few us waits for its instructions as long as
// for memory.
template <class T, int kTiles>
__global__ void __launch_bounds__(kThreads, kTiles <= 2 ? 2 : 1)
    NarrowFewRowsKernel(__grid_constant__ const Arguments p) {
  constexpr int kColumns = kTiles * kTile, kPairs = kColumns / kPair;
  __shared__ float parts[kWarps][kTile][kColumns];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int line = lane / 4, piece = lane % 4 * kPackElems;  // where a lane's pieces of rows lie
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int row = thread / kPairs, place = thread % kPairs * kPair, column = first_column + place;

  using Piece = RawPack<T, kPackElems>;
  const auto load = [&](Piece(&to)[kChunks][kLoads], const void* matrix, int of_line, bool exists) {
    const T* const from = static_cast<const T*>(matrix) + int64_t{of_line} * p.k + piece;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int first = (chunk * kWarps + warp) * kChunk + i * kLoadElems;
        to[chunk][i] = exists && first + piece < p.k ? LoadRaw<kPackElems>(from + first) : Piece{};
      }
    }
  };
  Piece weights[kTiles][kChunks][kLoads];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int first = first_column + tile * kTile;
    load(weights[tile], p.at.b, first + line, first < p.n);
  }
  device::TriggerDependents();  // behind the weights, which are to come first
#pragma unroll 1
  for (bool is_real = false;; is_real = true) {
    if (is_real) device::GridDependencyWait();
    Piece rows[kChunks][kLoads];
    load(rows, p.at.a, line, is_real && line < p.m);
    const bool finishes = is_real && row < p.m && column < p.n;
    const Addends<T, kPair> addends(p, finishes, row, column);

    device::FragmentD<float> sums[kTiles] = {};
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
          const device::FragmentA<T> a = {{rows[chunk][i].word[half], 0, rows[chunk][i].word[half + 1], 0}};
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const Piece& of_tile = weights[tile][chunk][i];
            device::Mma(sums[tile], a, device::FragmentB<T>{{of_tile.word[half], of_tile.word[half + 1]}});
          }
        }
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      StorePack(&parts[warp][line][tile * kTile + device::MmaColumn(lane, 0)],
                Pack<float, 2>{sums[tile].value[0], sums[tile].value[1]});
    }
    __syncthreads();
    float sum[kPair] = {};
    if (row < kTile) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const Pack<float, kPair> part = LoadPack<kPair>(&parts[w][row][place]);
#pragma unroll
        for (int i = 0; i < kPair; ++i) sum[i] += part.value[i];
      }
    }
    Finish(p, sum, addends, finishes, row, column);
    if (is_real) break;
    __syncthreads();
  }
}

template <class T, int kTiles = kMostTiles>
Status Launch(int columns, const Arguments& arguments, device::Stream stream) {
  if constexpr (kTiles > 1) {
    if (columns < kTiles * kTile) return Launch<T, kTiles - 1>(columns, arguments, stream);
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv(arguments.n, columns));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(NarrowFewRowsKernel<T, kTiles>, config, stream, arguments);
}

}  // namespace

Status LaunchNarrow(DataType type, int columns, const Arguments& arguments, device::Stream stream) {
  const bool fits = columns % kTile == 0 && columns >= kTile && columns <= kMostNarrowColumns;
  if (arguments.m > kMostNarrowRows || arguments.k > kMostNarrowInner || !fits) {
    return InvalidArgument("a product of ", arguments.m, " rows and ", arguments.k, " inner elements by blocks of ",
                           columns, " columns");
  }
  return type == DataType::kFloat16 ? Launch<Half>(columns, arguments, stream)
                                    : Launch<BFloat16>(columns, arguments, stream);
}

}  // namespace cudaep::kernels::few_rows
