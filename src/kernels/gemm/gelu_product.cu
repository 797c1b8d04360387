#include "device/pairs.h"
#include "device/words.h"
#include "kernels/elementwise/gelu.cuh"
#include "kernels/gemm/gelu_product.h"
#include "kernels/gemm/warpgroup_product.cuh"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

template <class T>
struct GeluFinish {
  using Element = T;
  static constexpr bool kTall = false;
  struct OfBlock {};
  template <int kColumns>
  struct OfColumns {
    Pack<T, 2> bias[kColumns / 2];
  };
  template <int kColumns>
  struct OfThread {};

  void* c;
  const void* bias;  // or null
  int32_t m, n;

  __device__ __forceinline__ void BringBlock(OfBlock&) const {}
  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>&, int /*row*/, int /*column*/) const {}

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    for (int i = static_cast<int>(threadIdx.x) % 32; i < kColumns / 2; i += 32) {
      const bool any = bias != nullptr && column + 2 * i < n;
      of.bias[i] = any ? LoadPack<2>(static_cast<const T*>(bias) + column + 2 * i) : Pack<T, 2>{};
    }
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfBlock&, const OfColumns<kColumns>& of, const OfThread<kColumns>&,
                                             const float* sum, int first, int row, int column) const {
    const int quad = static_cast<int>(threadIdx.x) % 4;
    uint32_t upper[4], lower[4];  // of the rows and those eight below
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pack<T, 2> term = of.bias[first / 2 + i * 4 + quad];
      const float low = ToFloat(term.value[0]), high = ToFloat(term.value[1]);
      upper[i] = device::PairOf<T>(RoundedGelu<T>(sum[i * 4] + low), RoundedGelu<T>(sum[i * 4 + 1] + high));
      lower[i] = device::PairOf<T>(RoundedGelu<T>(sum[i * 4 + 2] + low), RoundedGelu<T>(sum[i * 4 + 3] + high));
    }
    device::TransposeQuad(upper, quad);
    device::TransposeQuad(lower, quad);
    column += quad * kGeluProductPack;
    const auto store = [&](const uint32_t(&word)[4], int to) {
      if (column >= n || to >= m) return;
      StorePack(static_cast<uint32_t*>(c) + (int64_t{to} * n + column) / 2,
                Pack<uint32_t, 4>{{word[0], word[1], word[2], word[3]}});
    };
    store(upper, row);
    store(lower, row + 8);
  }
};

template <class T>
Status LaunchOf(const GeluProduct& product, const WarpgroupPlan& plan, const GeluProductPointers& at,
                device::Stream stream) {
  const GeluFinish<T> finish{.c = at.c,
                             .bias = product.bias ? at.bias : nullptr,
                             .m = static_cast<int32_t>(product.m),
                             .n = static_cast<int32_t>(product.n)};
  return warpgroup::Launch(plan, at.a, at.b, product.m, product.n, product.k, finish, stream);
}

}  // namespace

Status LaunchGeluProduct(const GeluProduct& product, const WarpgroupPlan& plan, const GeluProductPointers& at,
                         device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  if (product.type != DataType::kFloat16 && product.type != DataType::kBFloat16) {
    return NotSupported("a product with GELU of ", DataTypeName(product.type));
  }
  return product.type == DataType::kFloat16 ? LaunchOf<Half>(product, plan, at, stream)
                                            : LaunchOf<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
