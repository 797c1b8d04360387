#include <algorithm>

#include "core/checked_math.h"
#include "device/async_copy.h"
#include "device/cluster.h"
#include "device/device_info.h"
#include "device/tensor_core.h"
#include "kernels/common/tensor_cores.h"
#include "kernels/gemm/few_rows.cuh"
#include "kernels/gemm/gated_product.h"

namespace cudaep::kernels {
namespace {

using few_rows::Arguments;

constexpr int kRows = static_cast<int>(kFewRows), kColumns = kStagedColumns;  // of C that a block has
constexpr int kDepth = 64;  // of the inner dimension in one stage: 128 bytes
constexpr int kStageElems = (kRows + kColumns) * kDepth, kStages = 9;
constexpr size_t kSharedBytes = size_t{kStages} * kStageElems * 2;  // two blocks of a multiprocessor have room
constexpr int kFewestSteps = 2;                                     // of a split

constexpr int kPieces = kDepth / kFewRowsPack;
constexpr int kMmaDepth = 16, kMmaColumns = 8;
// A warp has half of the columns, and of each stage as much as one instruction takes.
constexpr int kColumnWarps = 2, kGroups = kDepth / kMmaDepth;
constexpr int kThreads = 32 * kColumnWarps * kGroups;
constexpr int kColumnTiles = kColumns / kColumnWarps / kMmaColumns;
constexpr int kLines = kThreads / kPieces;  // rows of which all threads bring a stage at once

constexpr int kSums = kRows * kColumns / kThreads;                         // neighbours of a row that a thread finishes
constexpr int kSumStride = kColumns + 4, kGroupSums = kRows * kSumStride;  // of rows in shared memory
static_assert(kSums == 4 && kGroups * kGroupSums * sizeof(float) <= kSharedBytes);

// Where a piece of a row of a stage lies: eight rows at the same place in the row are in different banks.
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * kDepth + (piece ^ (row % kPieces)) * kFewRowsPack;
}

// Brings kCount rows of a matrix, stage after stage; what is not in it is zero. kGated: kLines of them at a time are
// from another half of the matrix, that is `between` elements behind; `rows` are those of one half.
template <class T, int kCount, bool kGated = false>
class RowLoader {
 public:
  __device__ __forceinline__ RowLoader(const void* matrix, int first, int rows, int first_k, int inner,
                                       int64_t between = 0)
      : line_(static_cast<int>(threadIdx.x) / kPieces),
        piece_(static_cast<int>(threadIdx.x) % kPieces),
        left_(rows - first - line_),
        k_(first_k + piece_ * kFewRowsPack),
        inner_(inner),
        next_(kGated ? between : int64_t{kLines} * inner),
        from_(static_cast<const T*>(matrix) + int64_t{first + line_} * inner + k_) {}

  __device__ __forceinline__ void Load(T* tile) {
    static_assert(!kGated || kCount == 2 * kLines);
#pragma unroll
    for (int row = 0; row < kCount; row += kLines) {
      if (kCount < kLines && line_ >= kCount) break;
      const bool exists = (kGated ? 0 : row) < left_ && k_ < inner_;
      device::CopyAsync<16>(tile + PlaceOf(line_ + row, piece_), exists ? from_ + row / kLines * next_ : from_,
                            exists ? 16 : 0);
    }
    k_ += kDepth, from_ += kDepth;
  }

 private:
  int line_, piece_, left_, k_, inner_;
  int64_t next_;
  const T* from_;
};

// The sum of what the groups of warps of kSplits blocks have at one place: all is asked for before it is waited for.
template <int kSplits>
__device__ __forceinline__ void AddParts(const float* part, float (&sum)[kSums]) {
  Pack<float, kSums> term[kSplits][kGroups];
#pragma unroll
  for (int split = 0; split < kSplits; ++split) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const float* const from = part + group * kGroupSums;
      term[split][group] = kSplits == 1
                               ? LoadPack<kSums>(from)
                               : device::LoadFromCluster<Pack<float, kSums>>(from, static_cast<unsigned>(split));
    }
  }
#pragma unroll
  for (const auto& of_split : term) {
#pragma unroll
    for (const auto& of_group : of_split) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sum[i] += of_group.value[i];
    }
  }
}

// Adds up what groups and splits have at one place.
__device__ __forceinline__ void AddParts(const float* part, int splits, float (&sum)[kSums]) {
  switch (splits) {
    case 1:
      return AddParts<1>(part, sum);
    case 2:
      return AddParts<2>(part, sum);
    case 4:
      return AddParts<4>(part, sum);
    default:
      return AddParts<8>(part, sum);
  }
}

// kGated: of each half of B as many columns.
template <class T, bool kGated>
__global__ void __launch_bounds__(kThreads, 2) FewRowsKernel(__grid_constant__ const Arguments p) {
  T* const shared = device::DynamicShared<T>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const int group = thread / 32 / kColumnWarps, warp_column = thread / 32 % kColumnWarps * kColumnTiles * kMmaColumns;
  const int split = static_cast<int>(blockIdx.x) % p.splits;
  constexpr int kOwnColumns = kGated ? kColumns / 2 : kColumns;  // of C
  const int columns = kGated ? p.n / 2 : p.n;
  const int first_column = static_cast<int>(blockIdx.x) / p.splits * kOwnColumns;
  const int first_k = split * p.steps * kDepth;
  const int steps = device::Min(p.steps, (p.k - first_k + kDepth - 1) / kDepth);
  const auto rows_of = [&](int step) { return shared + step % kStages * kStageElems; };
  const auto weights_of = [&](int step) { return rows_of(step) + kRows * kDepth; };
  // The half that is activated comes first.
  const int64_t half = kGated ? int64_t{columns} * p.k : 0;
  RowLoader<T, kColumns, kGated> weights(static_cast<const T*>(p.at.b) + (p.second ? half : 0), first_column, columns,
                                         first_k, p.k, p.second ? -half : half);
  RowLoader<T, kRows> rows(p.at.a, 0, p.m, first_k, p.k);

  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) weights.Load(weights_of(step));
  }
  device::GridDependencyWait();
  device::TriggerDependents();  // not before: of all that follow the next kernel alone is to take room here
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) rows.Load(rows_of(step));
    device::CommitCopies();
  }

  // What this thread finishes: of the block's share of the rows.
  constexpr int kThreadsOfRow = kColumns / kSums;
  const int share = kRows / p.splits, share_row = thread / kThreadsOfRow, place = thread % kThreadsOfRow * kSums;
  const int row = split * share + share_row, column = first_column + place;
  const bool finishes = share_row < share && row < p.m && column < columns && place < kOwnColumns;
  const few_rows::Addends<T, kSums> addends(p, finishes, row, kGated && p.second ? columns + column : column);
  [[maybe_unused]] Pack<T, kSums> other_bias{};
  if (kGated && p.bias && finishes) {
    other_bias = LoadPack<kSums>(static_cast<const T*>(p.at.bias) + (p.second ? column : columns + column));
  }

  const int matrix = lane / 8, matrix_row = lane % 8;
  device::FragmentD<float> sums[kColumnTiles] = {};
  for (int step = 0; step < steps; ++step) {
    device::WaitForCopies<kStages - 2>();
    __syncthreads();
    device::FragmentA<T> a;
    device::LoadMatrix<4>(a.word, rows_of(step) + PlaceOf(matrix % 2 * 8 + matrix_row, group * 2 + matrix / 2));
#pragma unroll
    for (int j = 0; j < kColumnTiles; j += 2) {
      const int line = warp_column + j * kMmaColumns + matrix / 2 * 8 + matrix_row;
      uint32_t word[4];
      device::LoadMatrix<4>(word, weights_of(step) + PlaceOf(line, group * 2 + matrix % 2));
      device::Mma(sums[j], a, device::FragmentB<T>{{word[0], word[1]}});
      device::Mma(sums[j + 1], a, device::FragmentB<T>{{word[2], word[3]}});
    }
    if (step + kStages - 1 < steps) {
      weights.Load(weights_of(step + kStages - 1));
      rows.Load(rows_of(step + kStages - 1));
    }
    device::CommitCopies();
  }

  // The stages' memory is the sums' now, [group][row][column].
  auto* const parts = reinterpret_cast<float*>(shared);
  device::WaitForCopies<0>();
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
    for (int v = 0; v < 4; v += 2) {
      const int to = device::MmaRow(lane, v) * kSumStride + warp_column + j * kMmaColumns + device::MmaColumn(lane, v);
      StorePack(parts + group * kGroupSums + to, Pack<float, 2>{sums[j].value[v], sums[j].value[v + 1]});
    }
  }
  if (p.splits == 1) {
    __syncthreads();
  } else {
    device::ClusterBarrier();
  }
  float sum[kSums] = {};
  if (finishes) {
    const float* const part = parts + row * kSumStride + place;
    AddParts(part, p.splits, sum);
    if constexpr (kGated) {
      float other[kSums] = {};
      AddParts(part + kOwnColumns, p.splits, other);
      few_rows::FinishGate(p, sum, other, addends.bias, other_bias, row, column);
    } else {
      few_rows::Finish(p, sum, addends, true, row, column);
    }
  }
  if (p.splits > 1) device::ClusterBarrier();  // the others have read this block's sums
}

template <bool kGated>
Status LaunchStaged(DataType type, const FewRowsPlan& plan, Arguments arguments, device::Stream stream) {
  const int64_t columns = kGated ? arguments.n / 2 : arguments.n;
  arguments.splits = plan.splits;
  arguments.steps = static_cast<int32_t>(CeilDiv<int64_t>(CeilDiv<int64_t>(arguments.k, kDepth), plan.splits));
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(columns, kGated ? kColumns / 2 : kColumns) * plan.splits);
  config.cluster.x = static_cast<unsigned>(plan.splits);
  config.block.x = kThreads;
  config.shared_bytes = kSharedBytes;
  config.programmatic = true;
  return type == DataType::kFloat16 ? device::Launch(FewRowsKernel<Half, kGated>, config, stream, arguments)
                                    : device::Launch(FewRowsKernel<BFloat16, kGated>, config, stream, arguments);
}

}  // namespace

bool TakesFewRows(const FewRowsProduct& product, const device::DeviceInfo& device) {
  const Epilogue& e = product.epilogue;
  const auto fits = [](int64_t size) {
    return size > 0 && size % kFewRowsPack == 0 && size <= INT32_MAX / kMostFewRowsSplits;
  };
  return product.m <= kFewRows && fits(product.n) && fits(product.k) && e.alpha == 1.0f &&
         (!e.residual() || e.beta == 1.0f) && device.major >= 8 && HasTensorCores(product.type, device) &&
         device.shared_bytes_per_block >= kSharedBytes;
}

FewRowsPlan PlanFewRows(const FewRowsProduct& product, const device::DeviceInfo& device) {
  const int64_t processors = std::max(device.multiprocessors, 1);
  if (product.m <= kMostNarrowRows && product.k <= kMostNarrowInner) {
    const int64_t columns = AlignUp(CeilDiv<int64_t>(product.n, processors), int64_t{8});
    if (columns <= kMostNarrowColumns) return {.columns = static_cast<int>(columns)};
  }
  FewRowsPlan plan;
  if (device.major < 9 || device.simulated) return plan;  // no clusters
  const int64_t blocks = CeilDiv<int64_t>(product.n, kColumns), steps = CeilDiv<int64_t>(product.k, kDepth);
  while (plan.splits < kMostFewRowsSplits && blocks * plan.splits * 2 <= processors &&
         steps >= plan.splits * 2 * kFewestSteps) {
    plan.splits *= 2;
  }
  return plan;
}

Status LaunchFewRows(const FewRowsProduct& product, const FewRowsPlan& plan, const FewRowsPointers& at,
                     device::Stream stream) {
  if (product.m == 0) return Status::Ok();
  const Epilogue& e = product.epilogue;
  const Arguments arguments{.at = at,
                            .m = static_cast<int32_t>(product.m),
                            .n = static_cast<int32_t>(product.n),
                            .k = static_cast<int32_t>(product.k),
                            .splits = 1,
                            .steps = 0,
                            .activation = e.activation,
                            .bias = e.bias,
                            .residual = e.residual(),
                            .second = 0,
                            .parameters = e.parameters};
  return plan.is_narrow() ? few_rows::LaunchNarrow(product.type, plan.columns, arguments, stream)
                          : LaunchStaged<false>(product.type, plan, arguments, stream);
}

std::optional<FewRowsPlan> PlanGatedFewRows(const GatedProduct& product, const device::DeviceInfo& device) {
  const FewRowsProduct whole{.type = product.type, .m = product.m, .n = 2 * product.n, .k = product.k};
  const bool fits = product.n % kFewRowsPack == 0 && ParameterCount(product.activation) == 0;
  if (!fits || !product.constant_b || !TakesFewRows(whole, device)) return std::nullopt;
  const FewRowsPlan plan = PlanFewRows(whole, device);
  if (plan.is_narrow()) return std::nullopt;
  return plan;
}

Status LaunchGatedFewRows(const GatedProduct& product, const FewRowsPlan& plan, const GatedPointers& at,
                          device::Stream stream) {
  if (product.m == 0) return Status::Ok();
  if (plan.is_narrow()) return InvalidArgument("narrow blocks have no gate");
  return LaunchStaged<true>(product.type, plan,
                            {.at = {.a = at.a, .b = at.b, .c = at.c, .bias = at.bias},
                             .m = static_cast<int32_t>(product.m),
                             .n = static_cast<int32_t>(2 * product.n),
                             .k = static_cast<int32_t>(product.k),
                             .splits = 1,
                             .steps = 0,
                             .activation = product.activation,
                             .bias = product.bias,
                             .residual = 0,
                             .second = product.second,
                             .parameters = {}},
                            stream);
}

}  // namespace cudaep::kernels
