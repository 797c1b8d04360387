// Few tokens: what is read is weights, once for each entry. A warp has two rows of them, its lanes eight elements of
// each at a time.
#include "kernels/moe/moe_weights.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kColumns = 2;  // of a warp
constexpr int kElems = 8;    // of a lane's piece
constexpr int kPieces = 4;   // whose loads are in flight together

// Eight weights as they lie in memory.
template <class T, int kBits>
struct Piece {
  MoeCodes<kBits> codes;

  // `bytes`: to the end of the row.
  __device__ __forceinline__ void Load(const uint8_t* from, int64_t bytes, bool packs) {
    if (packs) return codes.Load(from);
    for (uint32_t& word : codes.word) word = 0;
#pragma unroll
    for (int i = 0; i < kBits; ++i) {
      if (i < bytes) codes.word[i / 4] |= static_cast<uint32_t>(from[i]) << (i % 4 * 8);
    }
  }
  __device__ __forceinline__ float operator[](int i) const { return static_cast<float>(codes.Code(i)); }
};

template <class T>
struct Piece<T, 0> {
  Pack<T, kElems> values;

  __device__ __forceinline__ void Load(const uint8_t* from, int64_t bytes, bool packs) {
    const T* const elems = reinterpret_cast<const T*>(from);
    if (packs) {
      values = LoadPack<kElems>(elems);
      return;
    }
#pragma unroll
    for (int i = 0; i < kElems; ++i) {
      values.value[i] = i * static_cast<int64_t>(sizeof(T)) < bytes ? elems[i] : Store<T>(0.0f);
    }
  }
  __device__ __forceinline__ float operator[](int i) const { return cudaep::Load(values.value[i]); }
};

// The products of a row of a with a warp's rows of weights, without bias.
template <class T, int kBits>
__device__ __forceinline__ void Dots(const MoeArguments& p, const T* a, const MoeWeightRow (&rows)[kColumns],
                                     float (&sums)[kColumns]) {
  const uint8_t* bytes[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) bytes[c] = MoeRowBytes(p, rows[c]), sums[c] = 0;
  for (int64_t begin = static_cast<int64_t>(threadIdx.x) * kElems; begin < p.k; begin += kWarp * kElems * kPieces) {
    Piece<T, kBits> weights[kPieces][kColumns];
    Piece<T, 0> inputs[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int64_t k = begin + i * kWarp * kElems;
      if (k >= p.k) break;
      const int64_t offset = kBits == 0 ? k * static_cast<int64_t>(sizeof(T)) : k / 8 * kBits;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) weights[i][c].Load(bytes[c] + offset, p.row_bytes - offset, p.packs);
      inputs[i].Load(reinterpret_cast<const uint8_t*>(a + k), (p.k - k) * static_cast<int64_t>(sizeof(T)), p.packs);
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int64_t k = begin + i * kWarp * kElems;
      if (k >= p.k) break;
      const int64_t block = MoeBlockOf(p, k);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float zero = kBits == 0 ? 0.0f : MoeZero(p, rows[c], block);
        float dot = 0;
#pragma unroll
        for (int j = 0; j < kElems; ++j) dot += (weights[i][c][j] - zero) * inputs[i][j];
        sums[c] += kBits == 0 ? dot : dot * MoeScale<T>(p, rows[c], block);
      }
    }
  }
#pragma unroll
  for (float& sum : sums) sum = device::WarpReduce(sum, [](float x, float y) { return x + y; });
}

template <class T, int kBits>
__global__ void __launch_bounds__(kWarp* kWarps) MoeFewKernel(__grid_constant__ const MoeArguments p) {
  device::GridDependencyWait();
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y) * kColumns;
  if (column >= p.columns) return;
  const int64_t line = blockIdx.y;  // an entry, or the token whose entries are added up
  const auto* const a = static_cast<const T*>(p.at.a);
  T* const y = static_cast<T*>(p.at.y) + line * p.n;
  const int64_t last = p.columns - 1;
  float totals[kColumns] = {};
  for (int rank = 0; rank < (p.second ? p.top_k : 1); ++rank) {
    const int64_t entry = p.second ? line * p.top_k + rank : line;
    const int64_t expert = p.at.expert[entry];
    const MoeWeightRow rows[kColumns] = {MoeRowOf(p, expert, column),
                                         MoeRowOf(p, expert, device::Min(column + 1, last))};
    float sums[kColumns];
    Dots<T, kBits>(p, a + MoeInputRow(p, entry, entry) * p.k, rows, sums);
    if (!p.second) {
      if (threadIdx.x == 0) MoeFinish<T>(p, expert, column, sums[0], sums[1], y);
      return;
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) totals[c] += p.at.entry_weight[entry] * (sums[c] + MoeBias<T>(p, rows[c]));
  }
  if (threadIdx.x != 0) return;
  y[column] = Store<T>(totals[0]);
  if (column < last) y[column + 1] = Store<T>(totals[1]);
}

template <class T>
Status LaunchAs(const MoeArguments& p, const device::LaunchConfig& config, device::Stream stream) {
  switch (p.bits) {
    case 0:
      return device::Launch(MoeFewKernel<T, 0>, config, stream, p);
    case 2:
      return device::Launch(MoeFewKernel<T, 2>, config, stream, p);
    case 4:
      return device::Launch(MoeFewKernel<T, 4>, config, stream, p);
    case 8:
      return device::Launch(MoeFewKernel<T, 8>, config, stream, p);
    default:
      return NotSupported("weights of ", p.bits, " bits");
  }
}

}  // namespace

Status LaunchMoeFew(const MoeProduct& product, const MoeProductPointers& at, device::Stream stream) {
  if (product.entries() == 0 || product.n == 0) return Status::Ok();
  if (product.tokens > kMoeFewTokens) return InvalidArgument(product.tokens, " tokens are not few");
  const MoeArguments p = MoeArgumentsOf(product, at);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(p.columns, kWarps * kColumns));
  config.grid.y = static_cast<unsigned>(product.second ? product.tokens : product.entries());
  config.block = {kWarp, kWarps};
  config.programmatic = true;
  return VisitType<kFloatTypesNoDouble>(product.type, NotSupported("experts of ", DataTypeName(product.type)),
                                        [&]<class T>() { return LaunchAs<T>(p, config, stream); });
}

}  // namespace cudaep::kernels
