// Products of rows that are normalised as they are read.
#include "kernels/gemm/normed_rows.cuh"

namespace cudaep::kernels {
namespace {

template <class T, RowsActivation kActivation>
struct NormedFinish {
  using Element = T;
  static constexpr int kPack = kManyRowsPack;
  static constexpr bool kAlongRows = false, kResidual = false, kGated = false;
  static constexpr auto kBrings = warpgroup::Bringing::kEachTile;
  static constexpr bool Takes(WarpgroupTiles tiles) { return IsFlat(tiles); }
  template <int /*kColumns*/>
  static constexpr int kSideBySide = kPack;
  template <int kColumns>
  struct OfColumns {
    alignas(16) float of[2][kColumns];  // as NormedRowsPointers has them
    KeptRows::Row row[KeptRows::kRows];
  };
  template <int /*kColumns*/>
  using OfThread = RowsOfThread<T>;

  KeptRows rows;
  void* c;
  const float* columns;
  int32_t m, n;
  bool relu;
  uint8_t unused[7] = {};

  template <int kColumns>
  __device__ __forceinline__ void Bring(OfColumns<kColumns>& of, int column) const {
    BringVectors(of.of, columns, column, n);
  }
  template <int kColumns>
  __device__ __forceinline__ void BringRows(OfColumns<kColumns>& of, int row, bool rehearses) const {
    rows.Bring(of.row, row, m, columns, rehearses);
  }

  __device__ __forceinline__ void BringThread(RowsOfThread<T>& of, int row, int column) const {
    of.Place(c, row, column, m, n);
  }

  template <int kColumns>
  __device__ __forceinline__ void operator()(const OfColumns<kColumns>& of, const RowsOfThread<T>& to, const float* sum,
                                             int first, int row, int column) const {
    const auto weights = LoadPack<kPack>(&of.of[0][first + ColumnOfThread()]),
               shifts = LoadPack<kPack>(&of.of[1][first + ColumnOfThread()]);
    if (column >= n) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const KeptRows::Row kept = of.row[row % KeptRows::kRows + half * 8];
      Pack<uint32_t, kPack / 2> out;
#pragma unroll
      for (int i = 0; i < kPack / 2; ++i) {
        const auto finished = [&](int j) {
          const float x = fmaf(sum[i * 4 + half * 2 + j], kept.factor,
                               fmaf(weights.value[i * 2 + j], kept.shift, shifts.value[i * 2 + j]));
          return kActivation == RowsActivation::kGeluErf ? RoundedGelu<T>(x) : x;
        };
        const uint32_t pair = device::PairOf<T>(finished(0), finished(1));
        out.value[i] = kActivation == RowsActivation::kNoneOrRelu && relu ? device::MaxOrNanOfPairs<T>(pair, 0) : pair;
      }
      if (to.has[half]) StorePack(reinterpret_cast<uint32_t*>(to.upper + int64_t{n} * (half * 8) + first), out);
    }
  }
};

template <class T>
Status Launch(const NormedRowsProduct& p, const WarpgroupPlan& plan, const NormedRowsPointers& at,
              device::Stream stream) {
  const auto launch = [&]<RowsActivation kActivation>() {
    const NormedFinish<T, kActivation> finish{.rows = RowsOf<T>(at.moments, p.k, p.norm),
                                              .c = at.c,
                                              .columns = at.columns,
                                              .m = static_cast<int32_t>(p.m),
                                              .n = static_cast<int32_t>(p.n),
                                              .relu = p.activation == Activation::kRelu};
    return warpgroup::Launch(plan, at.u, at.b, {.b = p.constant_b}, p.m, p.n, p.k, finish, stream);
  };
  return p.activation == Activation::kGeluErf ? launch.template operator()<RowsActivation::kGeluErf>()
                                              : launch.template operator()<RowsActivation::kNoneOrRelu>();
}

}  // namespace

Status LaunchNormedRows(const NormedRowsProduct& product, const WarpgroupPlan& plan, const NormedRowsPointers& at,
                        device::Stream stream) {
  if (product.m == 0 || product.n == 0) return Status::Ok();
  CUDAEP_RETURN_IF_ERROR(CheckNormed(product.type, product.m, product.n, product.k, product.k, plan));
  if (!IsNoneOrRelu(product.activation) && product.activation != Activation::kGeluErf) {
    return InvalidArgument("a product of normalised rows with activation ", ActivationName(product.activation));
  }
  return product.type == DataType::kFloat16 ? Launch<Half>(product, plan, at, stream)
                                            : Launch<BFloat16>(product, plan, at, stream);
}

}  // namespace cudaep::kernels
