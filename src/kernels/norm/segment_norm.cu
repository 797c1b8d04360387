#include <type_traits>

#include "core/data_type_traits.h"
#include "kernels/common/long_rows.cuh"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_moments.cuh"
#include "kernels/norm/segment_input.cuh"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kWarps = kLongThreads / 32;
constexpr unsigned kTicketStride = 16;  // counters of teams lie as far apart
static_assert(kMostTeam / 2 * kTicketStride <= kReduceTickets, "every team of two or more has one");

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

// A row of a single segment is contiguous, which takes no divisions: those are a fifth of the instructions, and many
// rows are bound by these.
using WholePiece = LongPiece<kLongThreads, kLongChunk>;

template <class Piece>
__device__ __forceinline__ Piece PieceOf(const SegmentCut& cut, const Team& team) {
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if constexpr (std::is_same_v<Piece, WholePiece>) {
    return Piece(cut.length, {team.rank, team.blocks, warp, lane});
  } else {
    return Piece(cut, team.rank, team.blocks, warp);
  }
}

// `parts`: two for each block, of rows in turn; it and `tickets` are for teams of more than one.
template <class T, int kPack, class Piece>
__global__ void __launch_bounds__(kLongThreads)
    SegmentNormKernel(const __grid_constant__ SegmentInput<T> in, T* y, PartMoments<ComputeType<T>>* parts,
                      unsigned* tickets, int slots) {
  using C = ComputeType<T>;
  using Rows = LongRows<T, kPack, kLongThreads, kLongHeld, false, Piece>;
  __shared__ typename Rows::Barriers barriers;
  __shared__ PartMoments<C> warp_parts[2][kWarps];
  __shared__ C of_row[2][2];  // mean and squares
  Team team(in.team, tickets);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Piece piece = PieceOf<Piece>(in.cut, team);
  Rows rows(in.x, in.rows, piece, {blockIdx.x, gridDim.x, in.team}, slots, barriers);
  device::GridDependencyWait();
  rows.Begin();

  const C inverse_elems = static_cast<C>(1 / in.elems);
  const bool centred = in.centred();
  unsigned parity = 0;
#pragma unroll 1
  for (int64_t row = rows.first(); row < in.rows; row += rows.stride(), parity ^= 1) {
    Moments<C> moments;
    rows.Read([&](int chunk, const typename Rows::Chunk& raw) {
      AddChunk<T, kPack>(moments, raw, LanePacks(piece.PiecePacks(chunk)), centred);
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

    SegmentAffine<T> affine;
    const auto fetch = [&](int chunk) { affine.Fetch(in, piece, row, chunk); };
    rows.Write(fetch, [&](int chunk, const typename Rows::Chunk& raw) {
      StoreChunk<T, kPack>(y + (piece.PieceStart(row, chunk) + lane) * kPack, raw, LanePacks(piece.PiecePacks(chunk)),
                           mean, inv_std, affine);
    });
  }
  if (team.blocks > 1 && threadIdx.x == 0) team.Leave();
}

template <class T>
Status Launch(const SegmentNormArgs& args, device::Stream stream) {
  constexpr int kPack = RowPack(sizeof(T));
  const SegmentNormPlan& plan = *args.plan;
  const SegmentInput<T> in = MakeSegmentInput<T>(args, kPack);
  device::LaunchConfig config;
  config.grid.x = plan.blocks;
  config.block.x = kLongThreads;
  config.shared_bytes = static_cast<size_t>(plan.slots) * LongSlotBytes(kLongThreads);
  config.cooperative = plan.team > 1;
  config.programmatic = plan.team == 1;
  const auto launch = [&](auto kernel) {
    return device::Launch(kernel, config, stream, in, static_cast<T*>(args.y),
                          static_cast<PartMoments<ComputeType<T>>*>(args.exchange), args.tickets, plan.slots);
  };
  return args.rows.segments == 1 ? launch(SegmentNormKernel<T, kPack, WholePiece>)
                                 : launch(SegmentNormKernel<T, kPack, SegmentPiece>);
}

}  // namespace

Status LaunchSegmentNorm(const SegmentNormArgs& args, device::Stream stream) {
  if (args.plan->ahead) return LaunchSegmentNormAhead(args, stream);
  return VisitType<kSegmentNormTypes>(args.type, NotSupported("normalisation of segments of ", DataTypeName(args.type)),
                                      [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
