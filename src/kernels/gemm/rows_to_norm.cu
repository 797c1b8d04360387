// Products whose rows are kept for a normalisation.
#include "kernels/gemm/normed_rows.cuh"

namespace cudaep::kernels {
namespace {

// The sum of four lanes that have parts of the same row.
__device__ __forceinline__ float SumOfQuad(float value) {
  value += __shfl_xor_sync(device::kFullWarp, value, 1);
  return value + __shfl_xor_sync(device::kFullWarp, value, 2);
}

template <class T, bool kKeptResidual>
struct ToNormFinish {
  using Element = T;
  static constexpr int kPack = kManyRowsPack;
  static constexpr bool kAlongRows = false, kResidual = true, kGated = false;
  static constexpr auto kBrings = warpgroup::Bringing::kEachTile;
  static constexpr bool Takes(WarpgroupTiles tiles) { return IsFlat(tiles); }
  template <int /*kColumns*/>
  static constexpr int kSideBySide = kPack;
  enum Vector : int { kBias, kFactor, kGamma, kBeta, kVectors = kKeptResidual ? 4 : 2 };
  static_assert(kMomentElems == kWarpgroupSegment);
  template <int kColumns>
  struct OfColumns {
    alignas(16) float of[kVectors][kColumns];  // as RowsToNormPointers has them
    KeptRows::Row row[kKeptResidual ? KeptRows::kRows : 1];
  };
  template <int kColumns>
  struct OfThread {
    int64_t upper;  // what it has of C in its first row and the tile's first segment
    bool has[2];
  };

  device::TensorMap residual;
  KeptRows residual_rows;
  T* u;  // or null
  Pack<float, 2>* moments;
  T* y;  // or null
  const float* columns;
  int32_t m, n;

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    BringVectors(of.of, columns, column, n);
  }
  template <int kColumns>
  __device__ __forceinline__ void BringRows([[maybe_unused]] OfColumns<kColumns>& of, [[maybe_unused]] int row,
                                            [[maybe_unused]] bool rehearses) const {
    if constexpr (kKeptResidual) residual_rows.Bring(of.row, row, m, columns, rehearses);
  }

  template <int kColumns>
  __device__ __forceinline__ void BringThread(OfThread<kColumns>& of, int row, int column) const {
    of.upper = int64_t{row} * n + column + ColumnOfThread();
    of.has[0] = row < m;
    of.has[1] = row + 8 < m;
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const OfThread<kColumns>& to,
                                             const float* sum, int first, int row, int column,
                                             const unsigned char* box) const {
    const auto vector = [&](int which) { return LoadPack<kPack>(&of.of[which][first + ColumnOfThread()]); };
    const auto bias = vector(kBias), factor = vector(kFactor);
    if (column >= n) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto added = ResidualOfThread<T>(box, first, half * 8);
      float value[kPack];
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        value[i] = sum[i / 2 * 4 + half * 2 + i % 2] + bias.value[i];
        if constexpr (!kKeptResidual) value[i] += ToFloat(added.value[i]);
      }
      if constexpr (kKeptResidual) {
        const auto gamma = vector(kGamma), beta = vector(kBeta);
        const KeptRows::Row kept = of.row[row % KeptRows::kRows + half * 8];
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          value[i] += fmaf(ToFloat(added.value[i]), kept.factor, fmaf(gamma.value[i], kept.shift, beta.value[i]));
        }
      }
      const int64_t at = to.upper + int64_t{n} * (half * 8) + first;
      if (y != nullptr && to.has[half]) StoreRow(y + at, value);
      if (u == nullptr) continue;
      StoreMoments(value, row + half * 8, column, to.has[half]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) value[i] *= factor.value[i];
      if (to.has[half]) StoreRow(u + at, value);
    }
  }

 private:
  static __device__ __forceinline__ void StoreRow(T* to, const float (&value)[kPack]) {
    Pack<uint32_t, kPack / 2> pairs;
#pragma unroll
    for (int i = 0; i < kPack / 2; ++i) pairs.value[i] = device::PairOf<T>(value[i * 2], value[i * 2 + 1]);
    StorePack(reinterpret_cast<uint32_t*>(to), pairs);
  }
  // Of a segment's row, by the four lanes that have it.
  __device__ __forceinline__ void StoreMoments(const float (&value)[kPack], int row, int column, bool has) const {
    constexpr float kEach = 1.0f / kMomentElems;
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += value[i];
    const float mean = SumOfQuad(sum) * kEach;
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares = fmaf(value[i] - mean, value[i] - mean, squares);
    const float variance = SumOfQuad(squares) * kEach;
    if (!has || threadIdx.x % 4 != 0) return;
    moments[int64_t{row} * (n / kMomentElems) + column / kMomentElems] = {mean, variance};
  }
};

template <class T>
Status Launch(const RowsToNormProduct& p, const WarpgroupPlan& plan, const RowsToNormPointers& at,
              device::Stream stream) {
  const auto launch = [&]<bool kKeptResidual>() -> Status {
    ToNormFinish<T, kKeptResidual> finish{
        .residual = {},
        .residual_rows = RowsOf<T>(at.residual_moments, p.n, p.residual.value_or(KeptNorm{})),
        .u = static_cast<T*>(at.u),
        .moments = reinterpret_cast<Pack<float, 2>*>(at.moments),
        .y = static_cast<T*>(at.y),
        .columns = at.columns,
        .m = static_cast<int32_t>(p.m),
        .n = static_cast<int32_t>(p.n)};
    CUDAEP_RETURN_IF_ERROR(device::MakeTensorMap(at.residual, p.m, p.n,
                                                 static_cast<unsigned>(WarpgroupRows(plan.tiles)), &finish.residual));
    return warpgroup::Launch(plan, at.a, at.b, {.b = p.constant_b}, p.m, p.n, p.k, finish, stream);
  };
  return p.residual ? launch.template operator()<true>() : launch.template operator()<false>();
}

}  // namespace

Status LaunchRowsToNorm(const RowsToNormProduct& product, const WarpgroupPlan& plan, const RowsToNormPointers& at,
                        device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(CheckNormed(product.type, product.m, product.n, product.k, product.n, plan));
  if (at.residual == nullptr) return InvalidArgument("a product of rows to be normalised misses its residual");
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
