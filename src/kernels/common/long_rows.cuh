// Long rows, one after the other for each block of a grid that covers the device once.
//
// A row is cut into chunks, each warp having a piece of every chunk. Its first kHeld chunks stay in registers while
// it is worked on, the last ones in the slots of a ring in shared memory, and those between, of rows too long for both,
// are read twice, the second time from the L2 cache. As soon as a slot is free, what comes next is on its way to it:
// the rest of the row, then the block's next row, whose first chunks so arrive while this one is summed and written.
//
// The blocks of a cluster may share a row, its chunks going round the blocks.
#pragma once

#include "device/cluster.h"
#include "kernels/common/copy_ring.cuh"
#include "kernels/common/long_rows.h"

namespace cudaep::kernels {

// A pack of one value.
template <class T, int kPack>
__device__ __forceinline__ RawPack<T, kPack> FilledRaw(ComputeType<T> value) {
  ComputeType<T> values[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) values[k] = value;
  return PackCompute<T, kPack>(values);
}

// Who a thread is among those that share a row: `blocks` blocks of a cluster, of which its own is number `rank`.
struct LongPlace {
  unsigned rank, blocks, warp, lane;

  // The calling thread, whose block is alone without kClusters.
  template <bool kClusters>
  static __device__ __forceinline__ LongPlace OfThread() {
    return {kClusters ? device::ClusterRank() : 0, kClusters ? device::ClusterBlocks() : 1, threadIdx.x / 32,
            threadIdx.x % 32};
  }
};

// The rows of a block of a grid of `blocks`, the same for each block of its cluster: first(), that stride() behind it,
// and so on.
struct LongTurns {
  unsigned number, clusters;  // of the block's cluster, and of all

  __device__ __forceinline__ LongTurns(unsigned block, unsigned blocks, unsigned cluster)
      : number(block / cluster), clusters(blocks / cluster) {}
  __device__ __forceinline__ int64_t first() const { return number; }
  __device__ __forceinline__ int64_t stride() const { return clusters; }
};

// The chunks of a row as one thread sees them: kPacks packs, 32 apart. kClusters: the blocks of a cluster share it.
template <int kThreads, int kPacks, bool kClusters = false>
struct LongPiece {
  static constexpr int kPiecePacks = 32 * kPacks;  // of a warp

  int row_packs;
  int warp_first;  // pack of the row that the warp's piece of the first chunk begins with
  int stride;      // packs from one chunk to the next
  int first;       // pack of the thread
  int packs;       // from there to the row's end

  explicit __device__ __forceinline__ LongPiece(int size, const LongPlace& at = LongPlace::OfThread<kClusters>())
      : row_packs(size),
        warp_first(static_cast<int>(at.rank) * kThreads * kPacks + static_cast<int>(at.warp) * kPiecePacks),
        stride(static_cast<int>(at.blocks) * kThreads * kPacks),
        first(warp_first + static_cast<int>(at.lane)),
        packs(row_packs - first) {}

  __device__ __forceinline__ int Chunks() const { return (row_packs + stride - 1) / stride; }
  // Pack of the row that the warp's piece of a chunk begins with; behind the row's end where there is none.
  __device__ __forceinline__ int Start(int chunk) const { return warp_first + chunk * stride; }
  // Packs of the warp's piece of a chunk, none or less behind the row's end, and the first one's place in the tensor.
  __device__ __forceinline__ int PiecePacks(int chunk) const {
    return device::Min(row_packs - Start(chunk), kPiecePacks);
  }
  __device__ __forceinline__ int64_t PieceStart(int64_t row, int chunk) const { return row * row_packs + Start(chunk); }
  // Packs of all the warp's pieces: whole ones, and the one at the row's end.
  __device__ __forceinline__ int WarpPacks() const {
    const int left = device::Max(row_packs - warp_first, 0), whole = left / stride;
    return whole * kPiecePacks + device::Min(left - whole * stride, kPiecePacks);
  }
  // Packs from the thread's first of a chunk to the row's end.
  __device__ __forceinline__ int Left(int chunk) const { return packs - chunk * stride; }
  static __device__ __forceinline__ bool IsWhole(int left) { return left > (kPacks - 1) * 32; }

  // Calls function(j) for each pack j of a chunk that is in the row; one branch for the chunks that are whole.
  template <class Function>
  static __device__ __forceinline__ void ForPacks(int left, Function function) {
    if (IsWhole(left)) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) function(j);
    } else {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (j * 32 < left) function(j);
      }
    }
  }
};

// All threads of a block, kThreads of them, do the same: Begin, and for each row Read and Write.
//
// PieceType says what a row is and what a warp has of it, as LongPiece does for contiguous rows.
template <class T, int kPack, int kThreads, int kHeld = kLongHeld, bool kClusters = false,
          class PieceType = LongPiece<kThreads, kLongChunk, kClusters>>
class LongRows {
 public:
  using Raw = RawPack<T, kPack>;
  using Piece = PieceType;
  using Barriers = device::CopyBarrier[kThreads / 32][kLongSlots];
  // What a thread has of a chunk.
  using Chunk = Raw[kLongChunk];

  // Contiguous rows at x; `slots` of LongSlotBytes(kThreads) at the start of the dynamic shared memory.
  __device__ __forceinline__ LongRows(const T* x, int64_t rows, int row_packs, int slots, Barriers& barriers)
      : LongRows(x, rows, Piece(row_packs), {blockIdx.x, gridDim.x, kClusters ? device::ClusterBlocks() : 1}, slots,
                 barriers) {}
  // Rows of any kind.
  __device__ __forceinline__ LongRows(const T* x, int64_t rows, const Piece& piece, const LongTurns& turns, int slots,
                                      Barriers& barriers)
      : x_(x),
        piece_(piece),
        rows_(rows),
        turns_(turns),
        next_row_(turns_.first()),
        slots_(slots),
        chunks_(device::Max(piece_.Chunks(), kHeld)),
        kept_(chunks_ - kHeld <= slots ? kHeld : chunks_ - (slots - (slots + 3) / 4)),
        steps_(chunks_ + kept_ - kHeld),
        ring_(device::DynamicShared<Raw>() + static_cast<int>(threadIdx.x / 32) * 32 * kLongChunk,
              barriers[threadIdx.x / 32], slots) {}

  __device__ __forceinline__ const Piece& piece() const { return piece_; }
  // The block's rows, as LongTurns has them.
  __device__ __forceinline__ int64_t first() const { return turns_.first(); }
  __device__ __forceinline__ int64_t stride() const { return turns_.stride(); }

  // After GridDependencyWait.
  __device__ __forceinline__ void Begin() {
    for (int i = 0; i < slots_; ++i) PushNext();
  }

  // Calls add(chunk, raw) for all chunks of the row, in order. What is beyond the row's end is anything.
  template <class Add>
  __device__ __forceinline__ void Read(Add add) {
    Chunk raw;
    const auto take = [&](int chunk, Chunk& to, const Cursor& from) {
      ring_.Wait(from);
      ring_.Read(from, to);
      add(chunk, to);
    };
#pragma unroll
    for (int chunk = 0; chunk < kHeld; ++chunk) {
      take(chunk, held_[chunk], cursor_);
      PushNext();
      ring_.Advance(cursor_);
    }
    // Chunks up to `kept` leave their slots when they are added; of these, those that are not held come again.
#pragma unroll 1
    for (int chunk = kHeld; chunk < kept_; ++chunk) {
      take(chunk, raw, cursor_);
      PushNext();
      ring_.Advance(cursor_);
    }
    Cursor ahead = cursor_;
#pragma unroll 1
    for (int chunk = kept_; chunk < chunks_; ++chunk) {
      take(chunk, raw, ahead);
      ring_.Advance(ahead);
    }
  }

  // Calls fetch(chunk), for what else the chunk needs, and write(chunk, raw) for all chunks of the row, in any order.
  template <class Fetch, class Use>
  __device__ __forceinline__ void Write(Fetch fetch, Use write) {
    Chunk raw;
    for (auto& chunk : held_) KeepPacked(chunk);
#pragma unroll 1
    for (int step = kept_; step < steps_; ++step) {
      fetch(ChunkOf(step));
      if (step >= chunks_) ring_.Wait(cursor_);
      ring_.Read(cursor_, raw);
      write(ChunkOf(step), raw);
      PushNext();
      ring_.Advance(cursor_);
    }
#pragma unroll
    for (int chunk = 0; chunk < kHeld; ++chunk) {
      fetch(chunk);
      write(chunk, held_[chunk]);
    }
  }

 private:
  using Ring = CopyRing<Raw, kLongChunk, kThreads * kLongChunk>;
  using Cursor = typename Ring::Cursor;

  __device__ __forceinline__ int ChunkOf(int step) const { return step < chunks_ ? step : step - chunks_ + kHeld; }

  __device__ __forceinline__ void PushNext() {
    if (next_row_ >= rows_) return;
    const int chunk = ChunkOf(next_step_), packs = piece_.PiecePacks(chunk);
    ring_.Push(x_ + piece_.PieceStart(next_row_, chunk) * kPack, packs);
    if (++next_step_ < steps_) return;
    next_step_ = 0;
    next_row_ += stride();
  }

  const T* x_;
  Piece piece_;
  int64_t rows_;
  LongTurns turns_;
  int64_t next_row_;
  int next_step_ = 0;
  int slots_, chunks_, kept_, steps_;
  Ring ring_;
  Cursor cursor_;
  Chunk held_[kHeld];
};

}  // namespace cudaep::kernels
