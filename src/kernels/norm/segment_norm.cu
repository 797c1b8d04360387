#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "kernels/common/long_rows.cuh"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_input.cuh"
#include "kernels/norm/layer_norm_moments.cuh"
#include "kernels/norm/segment_cut.h"
#include "kernels/norm/segment_norm.h"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kWarps = kLongThreads / 32;
constexpr unsigned kTicketStride = 16;  // counters of teams lie as far apart
static_assert(kMostTeam / 2 * kTicketStride <= kReduceTickets, "every team of two or more has one");

template <class T>
struct SegmentInput {
  const T* x;
  const T* scale;
  const T* bias;
  int64_t rows;
  SegmentCut cut;
  FastDivider affine_rows;
  int32_t affine_segments;  // of a row, or 0 where all share a scale
  double epsilon, elems;
  uint32_t team;
  RowStatistic statistic;
};

// The calling block's place among those that share its rows. All of the grid's blocks are resident.
struct Team {
  unsigned blocks, number, rank;
  unsigned* counter;  // zero at first
  unsigned rounds = 0;

  __device__ __forceinline__ Team(unsigned size, unsigned* tickets)
      : blocks(size),
        number(blockIdx.x / size),
        rank(blockIdx.x - number * size),
        counter(tickets + number * kTicketStride) {}

  // By one thread of each block: returns when all of them have come this often. What they wrote before is seen then.
  __device__ __forceinline__ void Meet() {
    __threadfence();
    atomicAdd(counter, 1u);
    const unsigned wanted = ++rounds * blocks;
    while (*static_cast<volatile unsigned*>(counter) < wanted) {
    }
    __threadfence();
  }
  // The last to leave puts the counter back: by then nobody looks at it.
  __device__ __forceinline__ void Leave() {
    if (atomicAdd(counter, 1u) == (rounds + 1) * blocks - 1) *counter = 0;
  }
};

// By a warp, whose lanes all have the block's moments: the row's, from those of all blocks of the team, which leave
// them at part[0], part[1], ... of device memory.
template <class C>
__device__ __forceinline__ void MergeTeam(Team& team, PartMoments<C>* part, const Moments<C>& own, C inverse_elems,
                                          bool centred, C& mean, C& squares) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) {
    part[team.rank] = {own.count, own.mean, own.squares, C(0)};
    team.Meet();
  }
  __syncwarp();
  Moments<C> some;
  for (unsigned i = lane; i < team.blocks; i += 32) {
    const volatile PartMoments<C>& p = part[i];
    const Moments<C> other{p.count, p.mean, p.squares};
    if (i == lane) {
      some = other;
    } else {
      some.Merge(other);
    }
  }
  MergeMoments<1>({some.count}, {some.mean}, {some.squares}, inverse_elems, 32, centred, mean, squares);
}

// `parts`: two for each block, of rows in turn; it and `tickets` are for teams of more than one.
template <class T, int kPack>
__global__ void __launch_bounds__(kLongThreads)
    SegmentNormKernel(const __grid_constant__ SegmentInput<T> in, T* y, PartMoments<ComputeType<T>>* parts,
                      unsigned* tickets, int slots) {
  using C = ComputeType<T>;
  using Rows = LongRows<T, kPack, kLongThreads, kLongHeld, 1, false, SegmentPiece>;
  using Cut = LongPiece<kLongThreads, kLongChunk>;
  __shared__ typename Rows::Barriers barriers;
  __shared__ PartMoments<C> warp_parts[2][kWarps];
  __shared__ C of_row[2][2];  // mean and squares
  Team team(in.team, tickets);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const SegmentPiece piece(in.cut, team.rank, team.blocks, warp);
  Rows rows(in.x, in.rows, piece, {blockIdx.x, gridDim.x, in.team}, slots, barriers);
  device::GridDependencyWait();
  rows.Begin();

  const C inverse_elems = static_cast<C>(1 / in.elems);
  const bool centred = in.statistic == RowStatistic::kRms || in.statistic == RowStatistic::kL2;
  const auto left_of = [&](int chunk) { return piece.PiecePacks(chunk) - static_cast<int>(lane); };
  unsigned parity = 0;
#pragma unroll 1
  for (int64_t row = rows.first(); row < in.rows; row += rows.stride(), parity ^= 1) {
    Moments<C> moments;
    rows.Read([&](int chunk, const typename Rows::Chunk& raw) {
      const int left = left_of(chunk);
      if (Cut::IsWhole(left)) {
        C value[kLongChunk][kPack];
#pragma unroll
        for (int j = 0; j < kLongChunk; ++j) UnpackCompute<T, kPack>(raw[j], value[j]);
        moments.template Add<kLongChunk * kPack>(value[0], centred);
        return;
      }
#pragma unroll
      for (int j = 0; j < kLongChunk; ++j) {
        if (j * 32 >= left) break;
        C value[kPack];
        UnpackCompute<T, kPack>(raw[j], value);
        moments.template Add<kPack>(value, centred);
      }
    });

    // Of the warp, of the block, of the row.
    C mean, squares, count = SumOfLanes(moments.count, 32);
    MergeMoments<1>({moments.count}, {moments.mean}, {moments.squares}, C(1) / device::Max(count, C(1)), 32, centred,
                    mean, squares);
    if (lane == 0) warp_parts[parity][warp] = {count, mean, squares, C(0)};
    __syncthreads();
    const PartMoments<C> p = lane < kWarps ? warp_parts[parity][lane] : PartMoments<C>{};
    count = SumOfLanes(p.count, 32);
    MergeMoments<1>({p.count}, {p.mean}, {p.squares}, C(1) / device::Max(count, C(1)), 32, centred, mean, squares);
    if (team.blocks > 1) {
      if (warp == 0) {
        PartMoments<C>* const of_team = parts + (parity * gridDim.x + team.number * team.blocks);
        MergeTeam(team, of_team, {count, mean, squares}, inverse_elems, centred, mean, squares);
        if (lane == 0) {
          of_row[parity][0] = mean;
          of_row[parity][1] = squares;
        }
      }
      __syncthreads();
      mean = of_row[parity][0];
      squares = of_row[parity][1];
    }
    const C inv_std = InverseOf<T>(in.statistic, squares, inverse_elems, static_cast<C>(in.epsilon));

    int64_t affine_row = 0;
    if (in.scale != nullptr) {
      uint32_t index;
      in.affine_rows.DivideWithRemainder(static_cast<uint32_t>(row), &index);
      affine_row = static_cast<int64_t>(index) * device::Max(in.affine_segments, 1);
    }
    C scale = 1, bias = 0;
    const auto fetch = [&](int chunk) {
      if (in.scale == nullptr || piece.PiecePacks(chunk) == 0) return;
      const int64_t at = affine_row + (in.affine_segments == 0 ? 0 : piece.Segment(chunk));
      scale = Load(in.scale[at]);
      if (in.bias != nullptr) bias = Load(in.bias[at]);
    };
    rows.Write(fetch, [&](int chunk, const typename Rows::Chunk& raw) {
      T* const to = y + (piece.PieceStart(row, chunk) + lane) * kPack;
      Cut::ForPacks(left_of(chunk), [&](int j) {
        C value[kPack];
        UnpackCompute<T, kPack>(raw[j], value);
#pragma unroll
        for (int k = 0; k < kPack; ++k) value[k] = (value[k] - mean) * inv_std * scale + bias;
        StoreWords<kPack>(to + j * 32 * kPack, PackCompute<T, kPack>(value));
      });
    });
  }
  if (team.blocks > 1 && threadIdx.x == 0) team.Leave();
}

template <class T>
Status Launch(const SegmentNormArgs& args, device::Stream stream) {
  constexpr int kPack = RowPack(sizeof(T));
  const SegmentNormPlan& plan = *args.plan;
  const SegmentedRows& rows = args.rows;
  const SegmentInput<T> in{.x = static_cast<const T*>(args.x),
                           .scale = static_cast<const T*>(args.scale),
                           .bias = static_cast<const T*>(args.bias),
                           .rows = rows.rows(),
                           .cut = SegmentCut::Of(rows.segments, rows.inner, rows.length / kPack),
                           .affine_rows = FastDivider(static_cast<uint32_t>(args.affine_rows)),
                           .affine_segments = args.affine_segments ? static_cast<int32_t>(rows.segments) : 0,
                           .epsilon = args.epsilon,
                           .elems = static_cast<double>(rows.elems()),
                           .team = plan.team,
                           .statistic = args.statistic};
  device::LaunchConfig config;
  config.grid.x = plan.blocks;
  config.block.x = kLongThreads;
  config.shared_bytes = static_cast<size_t>(plan.slots) * LongSlotBytes(kLongThreads);
  config.cooperative = plan.team > 1;
  config.programmatic = plan.team == 1;
  return device::Launch(SegmentNormKernel<T, kPack>, config, stream, in, static_cast<T*>(args.y),
                        static_cast<PartMoments<ComputeType<T>>*>(args.exchange), args.tickets, plan.slots);
}

}  // namespace

Status LaunchSegmentNorm(const SegmentNormArgs& args, device::Stream stream) {
  return VisitType<kSegmentNormTypes>(args.type, NotSupported("normalisation of segments of ", DataTypeName(args.type)),
                                      [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
