#include <bit>
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
// A team's tickets: words of its blocks for rounds in turn, then a counter.
constexpr unsigned kWordsOfBlock = 3, kRounds = 2, kTicketsOfBlock = kRounds * kWordsOfBlock * 2, kCounters = 3072;
constexpr unsigned kCounterStride = 8;  // counters of teams lie as far apart
static_assert(kMostTeam * kTicketsOfBlock <= kCounters);
static_assert(kCounters + kMostTeam / 2 * kCounterStride <= kReduceTickets, "every team of two or more has one");

// The calling block's place among those that share its rows, and what they tell each other. All of the grid's blocks
// are resident.
//
// A word carries its round beside the value, so one store of a block is seen by one load of each other: no fence, which
// would wait for all that the block has written of its rows. A round's words are overwritten two rounds on, which its
// block reaches when all others have told of the round between, and so have read these: their lanes wait for values,
// and the block's barrier stands between that and what its first lane tells next.
struct Team {
  unsigned blocks, number, rank;
  volatile uint64_t* words;  // zero at first: of the first block, each has kRounds * kWordsOfBlock
  unsigned* counter;         // likewise
  unsigned round = 0;

  __device__ __forceinline__ Team(unsigned size, unsigned* tickets)
      : blocks(size),
        number(blockIdx.x / size),
        rank(blockIdx.x - number * size),
        words(reinterpret_cast<uint64_t*>(tickets) + number * size * kRounds * kWordsOfBlock),
        counter(tickets + kCounters + number * kCounterStride) {}

  __device__ __forceinline__ volatile uint64_t* WordsOf(unsigned block) const {
    return words + (block * kRounds + round % kRounds) * kWordsOfBlock;
  }
  __device__ __forceinline__ void Tell(float count, float mean, float squares) const {
    volatile uint64_t* const to = WordsOf(rank);
    to[0] = Word(count);
    to[1] = Word(mean);
    to[2] = Word(squares);
  }
  // Waits for what another block tells in this round.
  __device__ __forceinline__ Moments<float> Hear(unsigned block) const {
    const volatile uint64_t* const from = WordsOf(block);
    uint64_t word[kWordsOfBlock];
    do {
      for (unsigned i = 0; i < kWordsOfBlock; ++i) word[i] = from[i];
    } while (!IsOfRound(word[0]) || !IsOfRound(word[1]) || !IsOfRound(word[2]));
    return {ValueOf(word[0]), ValueOf(word[1]), ValueOf(word[2])};
  }
  // By a warp of each block: the last one to leave puts the tickets back. By then nobody looks at them.
  __device__ __forceinline__ void Leave() const {
    const unsigned lane = threadIdx.x % 32;
    __syncwarp();
    const unsigned before = lane == 0 ? atomicAdd(counter, 1u) : 0;
    if (__shfl_sync(device::kFullWarp, before, 0) != blocks - 1) return;
    for (unsigned i = lane; i < blocks * kRounds * kWordsOfBlock; i += 32) words[i] = 0;
    if (lane == 0) *counter = 0;
  }

 private:
  __device__ __forceinline__ uint64_t Word(float value) const {
    return uint64_t{round + 1} << 32 | std::bit_cast<uint32_t>(value);
  }
  __device__ __forceinline__ bool IsOfRound(uint64_t word) const { return word >> 32 == round + 1; }
  static __device__ __forceinline__ float ValueOf(uint64_t word) {
    return std::bit_cast<float>(static_cast<uint32_t>(word));
  }
};

// By a warp, whose lanes all have the block's moments: the row's, from those of all blocks of the team.
__device__ __forceinline__ void MergeTeam(Team& team, const Moments<float>& own, float inverse_elems, bool centred,
                                          float& mean, float& squares) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) team.Tell(own.count, own.mean, own.squares);
  Moments<float> some;
  for (unsigned i = lane; i < team.blocks; i += 32) {
    const Moments<float> other = i == team.rank ? own : team.Hear(i);
    if (i == lane) {
      some = other;
    } else {
      some.Merge(other);
    }
  }
  ++team.round;
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

// `tickets`: for teams of more than one.
template <class T, int kPack, class Piece>
__global__ void __launch_bounds__(kLongThreads)
    SegmentNormKernel(const __grid_constant__ SegmentInput<T> in, T* y, unsigned* tickets, int slots) {
  using C = ComputeType<T>;
  using Rows = LongRows<T, kPack, kLongThreads, kLongHeld, false, Piece>;
  constexpr bool kSegments = std::is_same_v<Piece, SegmentPiece>;
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
    SegmentAffine<T> affine;  // of a row that is one segment now, while others are waited for
    if constexpr (!kSegments) affine.Fetch(in, piece, row, 0);
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
        MergeTeam(team, {count, mean, squares}, inverse_elems, centred, mean, squares);
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

    const auto fetch = [&](int chunk) {
      if constexpr (kSegments) affine.Fetch(in, piece, row, chunk);
    };
    rows.Write(fetch, [&](int chunk, const typename Rows::Chunk& raw) {
      StoreChunk<T, kPack>(y + (piece.PieceStart(row, chunk) + lane) * kPack, raw, LanePacks(piece.PiecePacks(chunk)),
                           mean, inv_std, affine);
    });
  }
  if (team.blocks > 1 && warp == 0) team.Leave();
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
    return device::Launch(kernel, config, stream, in, static_cast<T*>(args.y), args.tickets, plan.slots);
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
