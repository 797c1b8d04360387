#include "kernels/movement/transpose_plan.h"

#include <algorithm>
#include <bit>

#include "core/shape.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

// Below these many bytes of the whole tensor, or of one dense matrix, gathered reads hit the L1 cache and tiles only
// idle (measured on an H200, as is the next).
constexpr int64_t kMinTiledBytes = 16 * 1024;
constexpr int64_t kMinMatrixBytes = 4096;

// So do those of a matrix that on one side is dense with rows of so few elements (channels of pixels).
constexpr int64_t kMaxThinRow = 8;

bool DividesPacks(int64_t elems, int elem_bytes) { return elems * elem_bytes % kPackBytes == 0; }

int CeilLog2(int64_t value) { return std::bit_width(static_cast<uint64_t>(value - 1)); }

// Fills the shape of a tile of single elements: square for large matrices, long in one direction for thin ones.
void ShapeTile(TransposeTiles& tiles) {
  const int log_elems = CeilLog2(ElementTileElems(tiles.elem_bytes));
  const int shortest = log_elems - kMaxLogElementTile, half = (log_elems + 1) / 2;
  tiles.log_tile_a = std::clamp(CeilLog2(tiles.a_size), shortest, half);
  tiles.log_tile_b = std::clamp(CeilLog2(tiles.b_size), shortest, log_elems - tiles.log_tile_a);
  tiles.log_tile_a = log_elems - tiles.log_tile_b;
}

// Dimensions of the output, innermost first, with the strides of both sides in elements.
struct Moved {
  int rank = 0;
  int64_t size[kMaxStridedRank];
  int64_t in_stride[kMaxStridedRank];
  int64_t out_stride[kMaxStridedRank];

  void Erase(int at) {
    for (int d = at + 1; d < rank; ++d) {
      size[d - 1] = size[d];
      in_stride[d - 1] = in_stride[d];
      out_stride[d - 1] = out_stride[d];
    }
    --rank;
  }
};

Moved MovedDimensions(const StridedCopy& rows) {
  Moved moved;
  moved.rank = rows.rank;
  int64_t out_stride = 1;
  for (int d = 0; d < rows.rank; ++d) {
    moved.size[d] = rows.size[d];
    moved.in_stride[d] = rows.stride[d];
    moved.out_stride[d] = out_stride;
    out_stride *= rows.size[d];
  }
  return moved;
}

// Takes the innermost dimension, which stays innermost, into the element; false when it is too wide for that.
bool FoldInnermost(Moved& moved, int& elem_bytes) {
  const int64_t factor = moved.size[0];
  if (factor > kPackBytes / elem_bytes || !std::has_single_bit(static_cast<uint64_t>(factor))) return false;
  moved.Erase(0);
  for (int d = 0; d < moved.rank; ++d) {
    moved.in_stride[d] /= factor;
    moved.out_stride[d] /= factor;
  }
  elem_bytes *= static_cast<int>(factor);
  return true;
}

// False where tiles are impossible. `*worthwhile` is whether they are of use.
bool PlanTiles(const StridedCopy& rows, TransposeTiles& tiles, bool* worthwhile) {
  Moved moved = MovedDimensions(rows);
  tiles.elem_bytes = rows.unit_bytes;
  if (moved.in_stride[0] == 1 && !FoldInnermost(moved, tiles.elem_bytes)) return false;
  const int a = static_cast<int>(std::find(moved.in_stride, moved.in_stride + moved.rank, 1) - moved.in_stride);
  if (a == 0 || a == moved.rank) return false;
  tiles.a_size = moved.size[a];
  tiles.b_size = moved.size[0];
  tiles.in_stride = moved.in_stride[0];
  tiles.out_stride = moved.out_stride[a];
  const bool dense_in = tiles.in_stride == tiles.a_size, dense_out = tiles.out_stride == tiles.b_size;
  *worthwhile = !(dense_in && tiles.a_size * tiles.b_size * tiles.elem_bytes <= kMinMatrixBytes) &&
                !(dense_in && tiles.a_size <= kMaxThinRow) && !(dense_out && tiles.b_size <= kMaxThinRow);
  moved.Erase(a);
  moved.Erase(0);
  tiles.batch_rank = moved.rank;
  std::copy_n(moved.size, moved.rank, tiles.batch_size);
  std::copy_n(moved.in_stride, moved.rank, tiles.batch_in_stride);
  std::copy_n(moved.out_stride, moved.rank, tiles.batch_out_stride);

  const auto fits = [&](int64_t elems) { return DividesPacks(elems, tiles.elem_bytes); };
  tiles.packs = tiles.elem_bytes <= kMaxPackedElemBytes && fits(tiles.a_size) && fits(tiles.b_size) &&
                fits(tiles.in_stride) && fits(tiles.out_stride) &&
                std::all_of(tiles.batch_in_stride, tiles.batch_in_stride + tiles.batch_rank, fits) &&
                std::all_of(tiles.batch_out_stride, tiles.batch_out_stride + tiles.batch_rank, fits);
  ShapeTile(tiles);
  return true;
}

// Whether the matrices, planned as tiles, are rows that join (or split, the other way round) in whole packs.
bool Interleaves(const TransposeTiles& tiles, TransposeKind kind) {
  const bool join = kind == TransposeKind::kJoin;
  const int64_t ways = join ? tiles.b_size : tiles.a_size, row = join ? tiles.a_size : tiles.b_size;
  if (ways < 2 || ways > kMaxWays || tiles.elem_bytes > 8) return false;
  if ((join ? tiles.out_stride : tiles.in_stride) != ways) return false;
  const int64_t elems = InterleaveElems(tiles.elem_bytes, static_cast<int>(ways));
  const auto fits = [&](int64_t stride) { return stride % elems == 0; };
  const auto fits_joined = [&](int64_t stride) { return stride * tiles.elem_bytes % kPackBytes == 0; };
  const int64_t* const apart = join ? tiles.batch_in_stride : tiles.batch_out_stride;
  const int64_t* const joined = join ? tiles.batch_out_stride : tiles.batch_in_stride;
  return fits(row) && fits(join ? tiles.in_stride : tiles.out_stride) &&
         std::all_of(apart, apart + tiles.batch_rank, fits) &&
         std::all_of(joined, joined + tiles.batch_rank, fits_joined);
}

// Whether tiles of the fixed shape that packs need are not mostly empty.
bool FillsPackTiles(const TransposeTiles& tiles) {
  return 2 * tiles.a_size > PackTileA(tiles.elem_bytes) && 2 * tiles.b_size > PackTileB(tiles.elem_bytes);
}

Status Force(TransposePlan& plan, const TransposeChoice& forced) {
  plan.kind = forced.kind;
  if (forced.kind == TransposeKind::kRows) return Status::Ok();
  if (forced.kind == TransposeKind::kCopy) {
    if (plan.rows.contiguous()) return Status::Ok();
    return InvalidArgument("this transpose moves elements, so that a copy is none");
  }
  bool worthwhile = false;
  if (plan.rows.contiguous() || !PlanTiles(plan.rows, plan.tiles, &worthwhile)) {
    return InvalidArgument("this transpose has no tiles: its innermost dimension stays");
  }
  if (forced.packs && !plan.tiles.packs) {
    return InvalidArgument("tiles of ", plan.tiles.a_size, 'x', plan.tiles.b_size, " elements of ",
                           plan.tiles.elem_bytes, " bytes have no packs");
  }
  if (forced.kind != TransposeKind::kTiles && !Interleaves(plan.tiles, forced.kind)) {
    return InvalidArgument("a matrix of ", plan.tiles.a_size, 'x', plan.tiles.b_size, " elements of ",
                           plan.tiles.elem_bytes, " bytes has no few rows to join or split");
  }
  plan.tiles.packs = forced.packs;
  return Status::Ok();
}

}  // namespace

Result<TransposePlan> PlanTranspose(Dims dims, Dims perm, size_t elem_bytes, const TransposeChoice* forced) {
  TransposePlan plan;
  plan.bytes = ElementCount(dims) * static_cast<int64_t>(elem_bytes);
  if (plan.bytes == 0) return plan;
  const Shape in_strides = ContiguousStrides(dims);
  Shape sizes(static_cast<int>(perm.size()), 1), strides = sizes;
  for (int i = 0; i < sizes.rank(); ++i) {
    const auto from = static_cast<size_t>(perm[static_cast<size_t>(i)]);
    sizes[i] = dims[from];
    strides[i] = in_strides[static_cast<int>(from)];
  }
  CUDAEP_ASSIGN_OR_RETURN(plan.rows, MakeStridedCopy(sizes, strides, 0, elem_bytes));
  if (forced != nullptr) {
    CUDAEP_RETURN_IF_ERROR(Force(plan, *forced));
    return plan;
  }
  if (plan.rows.contiguous()) return plan;
  bool worthwhile = false;
  plan.kind = TransposeKind::kRows;
  if (plan.bytes >= kMinTiledBytes && PlanTiles(plan.rows, plan.tiles, &worthwhile)) {
    plan.kind = Interleaves(plan.tiles, TransposeKind::kJoin)    ? TransposeKind::kJoin
                : Interleaves(plan.tiles, TransposeKind::kSplit) ? TransposeKind::kSplit
                : worthwhile                                     ? TransposeKind::kTiles
                                                                 : TransposeKind::kRows;
  }
  plan.tiles.packs = plan.tiles.packs && FillsPackTiles(plan.tiles);
  return plan;
}

}  // namespace cudaep::kernels
