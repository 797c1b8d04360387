#include "kernels/rnn/fused_step.cuh"
#include "kernels/rnn/fused_step.h"

namespace cudaep::kernels {
namespace {

constexpr int kPackThreads = 256;
constexpr int64_t kWarpRowGroups = int64_t{kFusedWarps} * kMostFusedGroups;

// Which of the cell's gates a part multiplies.
struct Gates {
  int first, products, of;
};
constexpr Gates GatesOfPart(RnnPart part) {
  switch (part) {
    case RnnPart::kLstm:
      return {0, 4, 4};
    case RnnPart::kGru:
      return {0, 3, 3};
    case RnnPart::kGruReset:
      return {0, 2, 3};
    case RnnPart::kGruProposal:
      return {2, 1, 3};
    case RnnPart::kRnn:
      break;
  }
  return {0, 1, 1};
}

int64_t Tiles(RnnPart part, int64_t hidden) { return CeilDiv<int64_t>(hidden, FusedUnits(GatesOfPart(part).products)); }

// Thread of pack [direction, tile, group, half, lane]: the words of FragmentA that meet words 2 * half and
// 2 * half + 1 of the lane's pack of rows.
template <class T>
__global__ void __launch_bounds__(kPackThreads) PackKernel(const T* r, uint32_t* packed, Gates gates, int64_t hidden,
                                                           int64_t groups, int64_t tiles, int64_t packs) {
  device::GridDependencyWait();
  constexpr int kElems = 4 / static_cast<int>(sizeof(T)), kGroupElems = kRnnGroupBytes / static_cast<int>(sizeof(T));
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (pack >= packs) return;
  const int lane = static_cast<int>(pack % 32), half = static_cast<int>(pack / 32 % 2),
            units = kFusedRows / gates.products;
  const int64_t group = pack / 64 % groups, tile = pack / 64 / groups % tiles, direction = pack / 64 / groups / tiles;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i % 2 * 8, gate = row / units;
    const int64_t unit = tile * units + row % units;
    const int64_t k = group * kGroupElems + (lane % 4 * 4 + half * 2 + i / 2) * kElems;
    const T* const from = r + ((direction * gates.of + gates.first + gate) * hidden + unit) * hidden + k;
    uint32_t word = 0;
    for (int j = 0; j < kElems; ++j) {
      if (gate >= gates.products || unit >= hidden || k + j >= hidden) continue;
      if constexpr (kElems == 1) {
        word = device::Tf32Word(from[j]);
      } else {
        word |= static_cast<uint32_t>(from[j].bits) << (16 * j);
      }
    }
    packed[pack * 4 + i] = word;
  }
}

}  // namespace

bool FitsFusedStep(DataType type, int64_t hidden) {
  return kFusedRnnTypes.Contains(type) && hidden > 0 && hidden <= kWarpRowGroups * kRnnGroupBytes &&
         RnnGroups(hidden, SizeOf(type)) <= kWarpRowGroups;
}

size_t FusedWeightBytes(RnnPart part, DataType type, int64_t directions, int64_t hidden) {
  return static_cast<size_t>(directions * Tiles(part, hidden) * RnnGroups(hidden, SizeOf(type))) * kFusedRows *
         kRnnGroupBytes;
}

Status LaunchFusedPack(RnnPart part, DataType type, int64_t directions, int64_t hidden, const void* r, void* packed,
                       device::Stream stream) {
  const int64_t groups = RnnGroups(hidden, SizeOf(type)), tiles = Tiles(part, hidden);
  const int64_t packs = directions * tiles * groups * 64;
  const device::LaunchConfig config{.grid = {static_cast<unsigned>(CeilDiv<int64_t>(packs, kPackThreads))},
                                    .block = {kPackThreads},
                                    .programmatic = true};
  return VisitType<kFusedRnnTypes, Status>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return device::Launch(PackKernel<T>, config, stream, static_cast<const T*>(r), static_cast<uint32_t*>(packed),
                          GatesOfPart(part), hidden, groups, tiles, packs);
  });
}

size_t FusedRowBytes(const RnnShape& shape, DataType type) {
  return static_cast<size_t>(shape.directions * CeilDiv<int64_t>(shape.batch, kRnnRowTile) *
                             RnnGroups(shape.hidden, SizeOf(type))) *
         kRnnRowTile * kRnnGroupBytes;
}

Status LaunchFusedStep(RnnPart part, const RnnShape& shape, DataType type, const RnnPointers& at,
                       const FusedOperands& operands, int64_t step, device::Stream stream) {
  const auto groups = static_cast<int32_t>(RnnGroups(shape.hidden, SizeOf(type)));
  int each = 2;  // groups of a warp
  while (each * kFusedWarps < groups) each *= 2;
  const FusedArgs fused{.weights = static_cast<const uint32_t*>(operands.weights),
                        .rows = static_cast<const uint32_t*>(operands.rows),
                        .groups = groups,
                        .tiles = static_cast<int32_t>(Tiles(part, shape.hidden)),
                        .product_warps = CeilDiv(groups, each)};
  const auto launch =
      VisitType<kFusedRnnTypes, FusedLauncher>(type, nullptr, [&]<class T>() { return FindFusedStep<T>(part, each); });
  if (launch == nullptr) return NotSupported("element type ", DataTypeName(type));
  return launch(shape, at, fused, step, stream);
}

}  // namespace cudaep::kernels
