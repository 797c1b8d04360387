// How rows of segments are cut into pieces, of which a warp takes every so many: 128 packs of a segment, or what is
// left at its end. On the host too, so that a test can count for all blocks of a team.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/long_rows.h"
#include "kernels/fast_divide.h"

namespace cudaep::kernels {

inline constexpr int kSegmentPiecePacks = 32 * kLongChunk;
inline constexpr int64_t kMostTeam = 256;  // blocks that share a row, at most

// All in packs.
struct SegmentCut {
  int64_t segment_stride = 0, outer_stride = 0;
  FastDivider of_segment;  // pieces
  FastDivider inner;       // rows that lie between one segment and the next
  int32_t length = 0;      // of a segment
  int32_t pieces = 0;      // of a row

  // Rows of `segments`, each `packs` long, `inner` of them between one segment of a row and its next.
  static SegmentCut Of(int64_t segments, int64_t inner, int64_t packs) {
    const int64_t of_segment = (packs + kSegmentPiecePacks - 1) / kSegmentPiecePacks;
    return {.segment_stride = inner * packs,
            .outer_stride = segments * inner * packs,
            .of_segment = FastDivider(static_cast<uint32_t>(of_segment)),
            .inner = FastDivider(static_cast<uint32_t>(inner)),
            .length = static_cast<int32_t>(packs),
            .pieces = static_cast<int32_t>(segments * of_segment)};
  }
};

// Has what kernels/common/long_rows.cuh wants of a row's pieces.
struct SegmentPiece {
  static constexpr int kPiecePacks = kSegmentPiecePacks;

  const SegmentCut* cut;
  int first, stride;  // pieces: the warp's first one, and from there to the next

  CUDAEP_HOST_DEVICE SegmentPiece(const SegmentCut& row, unsigned rank, unsigned blocks, unsigned warp)
      : cut(&row),
        first(static_cast<int>(rank * (kLongThreads / 32) + warp)),
        stride(static_cast<int>(blocks * (kLongThreads / 32))) {}

  CUDAEP_HOST_DEVICE int Chunks() const { return (cut->pieces + stride - 1) / stride; }
  CUDAEP_HOST_DEVICE int Segment(int chunk) const {
    return static_cast<int>(cut->of_segment.Divide(static_cast<uint32_t>(first + chunk * stride)));
  }
  // Packs of the piece: none behind the row's end.
  CUDAEP_HOST_DEVICE int PiecePacks(int chunk) const {
    const int piece = first + chunk * stride;
    uint32_t in_segment;
    cut->of_segment.DivideWithRemainder(static_cast<uint32_t>(piece), &in_segment);
    const int left = cut->length - static_cast<int>(in_segment) * kPiecePacks;
    return piece >= cut->pieces ? 0 : left < kPiecePacks ? left : kPiecePacks;
  }
  // Its first pack, from the tensor's.
  CUDAEP_HOST_DEVICE int64_t PieceStart(int64_t row, int chunk) const {
    uint32_t inner, in_segment;
    const uint32_t outer = cut->inner.DivideWithRemainder(static_cast<uint32_t>(row), &inner);
    const uint32_t segment =
        cut->of_segment.DivideWithRemainder(static_cast<uint32_t>(first + chunk * stride), &in_segment);
    return outer * cut->outer_stride + segment * cut->segment_stride + int64_t{inner} * cut->length +
           int64_t{in_segment} * kPiecePacks;
  }
};

}  // namespace cudaep::kernels
