#include <algorithm>
#include <cmath>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/pack.h"
#include "kernels/quant/code_rounding.cuh"
#include "kernels/quant/qlinear_softmax.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kMostBlocks = 1 << 20;
constexpr int64_t kBlocksOfRows = 2048;  // some waves: each brings the powers once

enum class MaskKind : uint8_t { kNone, kFloats, kCodes };

// ByteOf a share, which needs no lower bound: it is at least 0, and the lowest code's number is at most that.
__device__ __forceinline__ uint32_t ByteOfShare(const CodeRounding& to, float share) {
  return AboveLowest(to, to.reciprocal.Quotient(fminf(share, to.most)));
}

// What a code adds to the sum, by how far it lies below its row's largest.
__device__ __forceinline__ void FillPowers(float scale, float (&power)[256]) {
#pragma unroll
  for (int i = 0; i < 256 / kThreads; ++i) {
    const int below = i * kThreads + static_cast<int>(threadIdx.x);
    power[below] = std::exp(-scale * static_cast<float>(below));
  }
}

// The mask's element that a row begins with.
__device__ __forceinline__ int64_t MaskStart(const SoftmaxMask& mask, int64_t row) {
  uint32_t query = 0, head = 0;
  const uint32_t heads = mask.queries.DivideWithRemainder(static_cast<uint32_t>(row), &query);
  const uint32_t batch = mask.heads.DivideWithRemainder(heads, &head);
  return batch * mask.stride[0] + head * mask.stride[1] + query * mask.stride[2];
}

// Bytes that one instruction moves, flipped; the first one of a word lies lowest.
template <int kPack>
struct Bytes {
  static constexpr int kOfWord = kPack < 4 ? kPack : 4;
  uint32_t word[kPack / kOfWord];

  __device__ __forceinline__ static Bytes Load(const uint8_t* from, uint32_t flip) {
    Bytes bytes;
    if constexpr (kPack == 1) {
      bytes.word[0] = *from ^ flip;
    } else {
      const auto pack = LoadPack<kPack / 4>(reinterpret_cast<const uint32_t*>(from));
#pragma unroll
      for (int w = 0; w < kPack / 4; ++w) bytes.word[w] = pack.value[w] ^ flip * 0x01010101u;
    }
    return bytes;
  }
  __device__ __forceinline__ void Store(uint8_t* to, uint32_t flip) const {
    if constexpr (kPack == 1) {
      *to = static_cast<uint8_t>(word[0] ^ flip);
    } else {
      Pack<uint32_t, kPack / 4> pack;
#pragma unroll
      for (int w = 0; w < kPack / 4; ++w) pack.value[w] = word[w] ^ flip * 0x01010101u;
      StorePack(reinterpret_cast<uint32_t*>(to), pack);
    }
  }
  __device__ __forceinline__ uint32_t operator[](int k) const { return word[k / kOfWord] >> (k % kOfWord * 8) & 0xffu; }
};

// As many numbers of a mask.
template <int kPack, MaskKind kMask>
__device__ __forceinline__ Pack<float, kPack> LoadMask(const SoftmaxMask& p, const void* mask, int64_t at) {
  if constexpr (kMask == MaskKind::kFloats) {
    return LoadPack<kPack>(static_cast<const float*>(mask) + at);
  } else {
    const auto bytes = Bytes<kPack>::Load(static_cast<const uint8_t*>(mask) + at, p.coding.flip);
    Pack<float, kPack> numbers;
#pragma unroll
    for (int k = 0; k < kPack; ++k) numbers.value[k] = NumberOf(p.coding, bytes.word[k / 4], k % 4);
    return numbers;
  }
}

// kLanes lanes a row, which keep it. Rows are whole packs.
template <int kPack, int kLanes, int kPacks, MaskKind kMask>
__global__ void __launch_bounds__(kThreads)
    QLinearSoftmaxRowsKernel(__grid_constant__ const QLinearSoftmax p, const uint8_t* x, const void* mask, uint8_t* y) {
  __shared__ float power[256];
  constexpr int kRows = 32 / kLanes;  // of a warp at once
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / 32;
  const int place = static_cast<int>(threadIdx.x) % 32 / kLanes;
  FillPowers(p.scale, power);
  device::GridDependencyWait();
  __syncthreads();
  const int packs = static_cast<int>(p.axis) / kPack;
  // Every lane goes round as often as its warp, whose lanes all take part in a shuffle.
  for (int64_t first = (blockIdx.x * int64_t{kWarps} + warp) * kRows; first < p.outer;
       first += gridDim.x * int64_t{kWarps * kRows}) {
    const int64_t row = first + place;
    const int mine = row < p.outer ? packs : 0;
    const int64_t start = row * p.axis;
    int32_t code[kPacks][kPack];
    int32_t highest = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int at = i * kLanes + lane;
      if (at >= mine) continue;
      const auto bytes = Bytes<kPack>::Load(x + start + at * kPack, p.x_flip);
      [[maybe_unused]] Pack<float, kPack> added;
      if constexpr (kMask != MaskKind::kNone) {
        added = LoadMask<kPack, kMask>(p.mask, mask, MaskStart(p.mask, row) + at * kPack);
      }
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if constexpr (kMask == MaskKind::kNone) {
          code[i][k] = static_cast<int32_t>(bytes[k]);
        } else {
          const float sum = NumberOf(p.mask.scores, bytes.word[k / 4], k % 4) + added.value[k];
          code[i][k] = static_cast<int32_t>(ByteOf<false>(p.mask.sum, sum));
        }
        highest = device::Max(highest, code[i][k]);
      }
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      highest = device::Max(highest, __shfl_xor_sync(device::kFullWarp, highest, offset));
    }
    const float* const top = power + highest;
    float share[kPacks][kPack];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (i * kLanes + lane >= mine) continue;
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += share[i][k] = top[-code[i][k]];
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(device::kFullWarp, sum, offset);
    // Of rows whose codes are all alike, where ties come from, it gives what dividing each share does.
    const float inverse = 1.0f / sum;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int at = i * kLanes + lane;
      if (at >= mine) continue;
      Bytes<kPack> bytes = {};
#pragma unroll
      for (int k = 0; k < kPack; ++k) bytes.word[k / 4] |= ByteOfShare(p.y, share[i][k] * inverse) << (k % 4 * 8);
      bytes.Store(y + start + at * kPack, p.y.coding.flip);
    }
  }
}

// How far the code that Softmax is of lies above the lowest one.
template <MaskKind kMask>
__device__ __forceinline__ int32_t CodeAt(const QLinearSoftmax& p, const uint8_t* x, const void* mask, int64_t at,
                                          int64_t mask_at) {
  const uint32_t byte = x[at] ^ p.x_flip;
  if constexpr (kMask == MaskKind::kNone) {
    return static_cast<int32_t>(byte);
  } else {
    const float added = LoadMask<1, kMask>(p.mask, mask, mask_at).value[0];
    return static_cast<int32_t>(ByteOf<true>(p.mask.sum, NumberOf(p.mask.scores, byte, 0) + added));
  }
}

// A block a row.
template <MaskKind kMask>
__global__ void __launch_bounds__(kThreads)
    QLinearSoftmaxKernel(__grid_constant__ const QLinearSoftmax p, const uint8_t* x, const void* mask, uint8_t* y) {
  __shared__ float power[256];
  __shared__ int32_t highest_of[kWarps];
  __shared__ float sum_of[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  FillPowers(p.scale, power);
  device::GridDependencyWait();
  for (int64_t row = blockIdx.x; row < p.outer * p.inner; row += gridDim.x) {
    const int64_t start = row / p.inner * p.axis * p.inner + row % p.inner;
    int64_t mask_start = 0;
    if constexpr (kMask != MaskKind::kNone) mask_start = MaskStart(p.mask, row);
    int32_t highest = 0;
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) {
      highest = device::Max(highest, CodeAt<kMask>(p, x, mask, start + i * p.inner, mask_start + i));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      highest = device::Max(highest, __shfl_xor_sync(device::kFullWarp, highest, offset));
    }
    if (lane == 0) highest_of[warp] = highest;
    __syncthreads();
    for (int i = 0; i < kWarps; ++i) highest = device::Max(highest, highest_of[i]);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) {
      sum += power[highest - CodeAt<kMask>(p, x, mask, start + i * p.inner, mask_start + i)];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(device::kFullWarp, sum, offset);
    if (lane == 0) sum_of[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += sum_of[i];
    for (int64_t i = threadIdx.x; i < p.axis; i += kThreads) {
      const int64_t at = start + i * p.inner;
      const float share = power[highest - CodeAt<kMask>(p, x, mask, at, mask_start + i)] / sum;
      y[at] = static_cast<uint8_t>(ByteOf<true>(p.y, share) ^ p.y.coding.flip);
    }
  }
}

struct Variant {
  void (*kernel)(QLinearSoftmax, const uint8_t*, const void*, uint8_t*) = nullptr;
  int lanes = 0;  // of a row; 0: a block
};

template <int kPack, int kLanes, int kPacks, MaskKind kMask>
constexpr Variant kRowsVariant = {&QLinearSoftmaxRowsKernel<kPack, kLanes, kPacks, kMask>, kLanes};

// For rows of whole packs that lie as such.
template <MaskKind kMask>
Variant VariantOf(int64_t axis, int pack) {
  if (pack == 16) {
    if (axis <= 128) return kRowsVariant<16, 8, 1, kMask>;
    if (axis <= 256) return kRowsVariant<16, 16, 1, kMask>;
    if (axis <= 512) return kRowsVariant<16, 32, 1, kMask>;
    if (axis <= 1024) return kRowsVariant<16, 32, 2, kMask>;
  } else if (pack == 4) {
    if (axis <= 128) return kRowsVariant<4, 32, 1, kMask>;
    if (axis <= 256) return kRowsVariant<4, 32, 2, kMask>;
    if (axis <= 512) return kRowsVariant<4, 32, 4, kMask>;
    if (axis <= 1024) return kRowsVariant<4, 32, 8, kMask>;
  } else if (axis <= 256) {
    return kRowsVariant<1, 32, 8, kMask>;
  }
  return {&QLinearSoftmaxKernel<kMask>, 0};
}

template <MaskKind kMask>
Status LaunchAs(const QLinearSoftmax& softmax, const void* x, const void* mask, void* y, device::Stream stream) {
  const size_t mask_bytes = kMask == MaskKind::kFloats ? sizeof(float) : 1;
  const auto takes = [&](int pack) {
    const auto bytes = static_cast<size_t>(pack);
    return softmax.axis % pack == 0 && IsAligned(x, bytes) && IsAligned(y, bytes) &&
           (kMask == MaskKind::kNone || IsAligned(mask, std::min<size_t>(bytes * mask_bytes, kPackBytes)));
  };
  const bool has_reciprocals =
      softmax.y.has_reciprocal && (kMask == MaskKind::kNone || softmax.mask.sum.has_reciprocal);
  Variant variant{&QLinearSoftmaxKernel<kMask>, 0};
  if (softmax.inner == 1 && has_reciprocals) {
    variant = VariantOf<kMask>(softmax.axis, takes(16) ? 16 : takes(4) ? 4 : 1);
  }
  device::LaunchConfig config;
  const int64_t rows_of_block = variant.lanes == 0 ? 1 : kThreads / variant.lanes;
  config.grid.x =
      static_cast<unsigned>(variant.lanes == 0 ? std::min(softmax.outer * softmax.inner, kMostBlocks)
                                               : std::min(CeilDiv(softmax.outer, rows_of_block), kBlocksOfRows));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(variant.kernel, config, stream, softmax, static_cast<const uint8_t*>(x), mask,
                        static_cast<uint8_t*>(y));
}

}  // namespace

Status LaunchQLinearSoftmax(const QLinearSoftmax& softmax, const void* x, const void* mask, void* y,
                            device::Stream stream) {
  if (softmax.outer * softmax.axis * softmax.inner == 0) return Status::Ok();
  if (softmax.mask.type == DataType::kUndefined) return LaunchAs<MaskKind::kNone>(softmax, x, mask, y, stream);
  if (softmax.mask.type == DataType::kFloat) return LaunchAs<MaskKind::kFloats>(softmax, x, mask, y, stream);
  return LaunchAs<MaskKind::kCodes>(softmax, x, mask, y, stream);
}

}  // namespace cudaep::kernels
