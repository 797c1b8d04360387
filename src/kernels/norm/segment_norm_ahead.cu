// Normalisation of rows of segments of which a block holds two and a part: a row's moments are summed before the row
// ahead of it is written, so that its elements arrive meanwhile, and nobody waits for the block's other warps.
#include "core/data_type_traits.h"
#include "kernels/common/copy_ring.cuh"
#include "kernels/common/long_rows.h"
#include "kernels/common/row_plan.h"
#include "kernels/norm/layer_norm_moments.cuh"
#include "kernels/norm/segment_input.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kWarps = kLongThreads / 32;
// Moments of as many rows may be under way: a warp sums the third row behind one that another warp is still at.
constexpr int kRowsUnderWay = 4;

// What the block's warps tell each other of a row; its next one is so many rows on.
template <class C>
struct RowMoments {
  PartMoments<C> of_warp[kWarps];
  device::CopyBarrier summed;  // by all warps
};

// Each warp has a ring of `depth` slots.
template <class T, int kPack>
__global__ void __launch_bounds__(kLongThreads, 1)
    SegmentNormAheadKernel(const __grid_constant__ SegmentInput<T> in, T* y, int depth) {
  using C = ComputeType<T>;
  using Raw = RawPack<T, kPack>;
  using Ring = CopyRing<Raw, kLongChunk, kWarps * kSegmentPiecePacks>;
  __shared__ device::CopyBarrier barriers[kWarps][kLongSlots];
  __shared__ RowMoments<C> rows[kRowsUnderWay];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const SegmentPiece piece(in.cut, 0, 1, warp);
  const int chunks = piece.Chunks();
  if (threadIdx.x == 0) {
    for (auto& row : rows) row.summed.Init(kWarps);
    device::FenceCopyBarriers();
  }
  Ring ring(device::DynamicShared<Raw>() + static_cast<int>(warp) * kSegmentPiecePacks, barriers[warp], depth);
  __syncthreads();
  device::GridDependencyWait();

  const int64_t first = blockIdx.x, stride = gridDim.x;
  int64_t next_row = first;
  int next_chunk = 0;
  const auto push = [&] {
    if (next_row >= in.rows) return;
    ring.Push(in.x + piece.PieceStart(next_row, next_chunk) * kPack, piece.PiecePacks(next_chunk));
    if (++next_chunk < chunks) return;
    next_chunk = 0;
    next_row += stride;
  };
  for (int i = 0; i < depth; ++i) push();

  const C inverse_elems = static_cast<C>(1 / in.elems);
  const bool centred = in.centred();
  typename Ring::Cursor arriving, leaving;
  Raw raw[kLongChunk];
  unsigned summed = 0, written = 0;
  const auto sum = [&] {
    Moments<C> moments;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      ring.Wait(arriving);
      ring.Read(arriving, raw);
      ring.Advance(arriving);
      AddChunk<T, kPack>(moments, raw, LanePacks(piece.PiecePacks(chunk)), centred);
    }
    const C count = SumOfLanes(moments.count, 32);
    C mean, squares;
    MergeMoments<1>({moments.count}, {moments.mean}, {moments.squares}, C(1) / device::Max(count, C(1)), 32, centred,
                    mean, squares);
    RowMoments<C>& row = rows[summed++ % kRowsUnderWay];
    if (lane != 0) return;
    row.of_warp[warp] = {count, mean, squares, C(0)};
    row.summed.Arrive();
  };
  if (first < in.rows) sum();
#pragma unroll 1
  for (int64_t row = first; row < in.rows; row += stride, ++written) {
    if (row + stride < in.rows) sum();
    SegmentAffine<T> affine;
    affine.Fetch(in, piece, row, 0);
    RowMoments<C>& own = rows[written % kRowsUnderWay];
    own.summed.Wait(written / kRowsUnderWay % 2);
    const PartMoments<C> p = lane < kWarps ? own.of_warp[lane] : PartMoments<C>{};
    C mean, squares;
    MergeMoments<1>({p.count}, {p.mean}, {p.squares}, inverse_elems, 32, centred, mean, squares);
    const C inv_std = InverseOf<T>(in.statistic, squares, inverse_elems, static_cast<C>(in.epsilon));
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (chunk != 0) affine.Fetch(in, piece, row, chunk);
      ring.Read(leaving, raw);
      ring.Advance(leaving);
      StoreChunk<T, kPack>(y + (piece.PieceStart(row, chunk) + lane) * kPack, raw, LanePacks(piece.PiecePacks(chunk)),
                           mean, inv_std, affine);
      push();
    }
  }
}

template <class T>
Status Launch(const SegmentNormArgs& args, device::Stream stream) {
  constexpr int kPack = RowPack(sizeof(T));
  const SegmentNormPlan& plan = *args.plan;
  device::LaunchConfig config;
  config.grid.x = plan.blocks;
  config.block.x = kLongThreads;
  config.shared_bytes = static_cast<size_t>(plan.slots) * LongSlotBytes(kLongThreads);
  config.programmatic = true;
  return device::Launch(SegmentNormAheadKernel<T, kPack>, config, stream, MakeSegmentInput<T>(args, kPack),
                        static_cast<T*>(args.y), plan.slots);
}

}  // namespace

Status LaunchSegmentNormAhead(const SegmentNormArgs& args, device::Stream stream) {
  return VisitType<kSegmentNormTypes>(args.type, NotSupported("normalisation of segments of ", DataTypeName(args.type)),
                                      [&]<class T>() { return Launch<T>(args, stream); });
}

}  // namespace cudaep::kernels
