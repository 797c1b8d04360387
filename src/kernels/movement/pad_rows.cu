#include "kernels/movement/pad_source.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 2;          // on their way to a thread
constexpr int64_t kMostRowsOfWarp = 4;  // 32 and fewer: a lane works out where one of them comes from
constexpr int64_t kManyWarps = 4096;    // that keep a large GPU busy; with fewer a warp has fewer rows
constexpr double kLeastLanes = 0.75;    // of a row's last warp's, and those before, that have a pack

template <class Unit>
struct PadRows {
  const Unit* in;
  PadValue value;
  int32_t elem_bytes;
  PadMode mode;
  uint32_t rows, rows_of_warp, packs;  // of a row
  FastDivider tiles;                   // of 32 packs of a row
  PadView<uint32_t> view;
};

// What a lane stores at once, so that a warp's stores lie side by side whatever its units are.
template <class Unit>
using PadWord = std::conditional_t<(sizeof(Unit) < 4), uint32_t, Unit>;

constexpr uint32_t kNoUnit = ~0u;

// The byte of the input that row `index` of the output begins with; -1 where it is outside and nothing stands for it.
template <class Unit>
__device__ __forceinline__ int64_t RowStart(const PadRows<Unit>& pad, uint32_t index) {
  int64_t start = 0;
  bool outside = false;
#pragma unroll 1
  for (int d = 1; d < pad.view.rank; ++d) {
    uint32_t coordinate = index;
    if (d + 1 < pad.view.rank) index = pad.view.out[d].DivideWithRemainder(index, &coordinate);
    int32_t position = static_cast<int32_t>(coordinate) - pad.view.begin[d];
    if (pad.mode != PadMode::kConstant) {
      position = MapPosition(position, pad.view.in[d], pad.mode);
    } else if (position < 0 || position >= pad.view.in[d]) {
      outside = true;
    }
    start += int64_t{position} * pad.view.stride[d];
  }
  return outside ? -1 : start * static_cast<int64_t>(sizeof(Unit));
}

// Each unit of a word is read by itself: where it comes from is worked out once for all rows of a warp, and neither the
// ends of a row nor how it is aligned make a difference.
template <class Unit>
__global__ void __launch_bounds__(kThreads, sizeof(Unit) == 1 ? 5 : 10)
    PadRowsKernel(const __grid_constant__ PadRows<Unit> pad, Unit* out) {
  using Word = PadWord<Unit>;
  constexpr int kUnits = static_cast<int>(sizeof(Word) / sizeof(Unit));  // of a word
  constexpr int kWords = static_cast<int>(kPackBytes / sizeof(Word));    // of a lane
  const unsigned lane = threadIdx.x % 32;
  uint32_t tile;
  const uint32_t group = pad.tiles.DivideWithRemainder(blockIdx.x * kWarps + threadIdx.x / 32, &tile);
  const uint32_t first = group * pad.rows_of_warp, words = pad.packs * kWords, word = tile * 32 * kWords + lane;
  const uint32_t rows = first < pad.rows ? device::Min(pad.rows - first, pad.rows_of_warp) : 0;
  const int64_t lane_start = lane < rows ? RowStart(pad, first + lane) : 0;
  const int32_t columns = pad.view.in[0];
  const auto has = [&](int w) { return word + static_cast<uint32_t>(w) * 32 < words; };
  uint32_t source[kWords][kUnits];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      int32_t from = static_cast<int32_t>((word + static_cast<uint32_t>(w) * 32) * kUnits) + k - pad.view.begin[0];
      if (pad.mode != PadMode::kConstant) from = MapPosition(from, columns, pad.mode);
      source[w][k] = from >= 0 && from < columns ? static_cast<uint32_t>(from) * sizeof(Unit) : kNoUnit;
    }
  }
  device::GridDependencyWait();
  Unit constant{};
  if (pad.mode == PadMode::kConstant) constant = Repeat<Unit>(pad.value, pad.elem_bytes);
  Word* to = reinterpret_cast<Word*>(out) + int64_t{first} * words + word;
#pragma unroll 1
  for (uint32_t r = 0; r < rows; r += kRowsAtOnce, to += int64_t{kRowsAtOnce} * words) {
    Pack<Unit, kUnits> units[kRowsAtOnce][kWords];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int64_t start = __shfl_sync(device::kFullWarp, lane_start, static_cast<int>(r) + i);
      if (r + i >= rows) continue;
      const std::byte* const row = reinterpret_cast<const std::byte*>(pad.in) + start;
      // Calls use(unit, from) for each.
      const auto for_units = [&](const auto& use) {
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
#pragma unroll
          for (int k = 0; k < kUnits; ++k) {
            if (has(w)) use(units[i][w].value[k], source[w][k]);
          }
        }
      };
      if (pad.mode != PadMode::kConstant) {  // all of them come from the input
        for_units([&](Unit& unit, uint32_t from) { unit = *reinterpret_cast<const Unit*>(row + from); });
      } else {
        for_units([&](Unit& unit, uint32_t from) {
          unit = start >= 0 && from != kNoUnit ? *reinterpret_cast<const Unit*>(row + from) : constant;
        });
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (r + i >= rows) continue;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (has(w)) to[i * int64_t{words} + w * 32] = std::bit_cast<Word>(units[i][w]);
      }
    }
  }
}

int64_t TilesOf(int64_t packs) { return CeilDiv<int64_t>(packs, 32); }

template <class Unit>
Status Launch(const PadCopy& pad, const void* in, PadValue value, void* out, device::Stream stream) {
  const int64_t factor = static_cast<int64_t>(sizeof(Unit)) / pad.elem_bytes;
  const int64_t row_units = pad.out[0] / factor, rows = pad.elems / pad.out[0];
  const int64_t packs = row_units / PackElems(sizeof(Unit)), tiles = TilesOf(packs);
  const int64_t rows_of_warp = std::clamp<int64_t>(rows * tiles / kManyWarps, kRowsAtOnce, kMostRowsOfWarp);
  const PadRows<Unit> call{.in = static_cast<const Unit*>(in) + pad.offset / factor,
                           .value = value,
                           .elem_bytes = pad.elem_bytes,
                           .mode = pad.mode,
                           .rows = static_cast<uint32_t>(rows),
                           .rows_of_warp = static_cast<uint32_t>(rows_of_warp),
                           .packs = static_cast<uint32_t>(packs),
                           .tiles = FastDivider(static_cast<uint32_t>(tiles)),
                           .view = MakePadView<uint32_t>(pad, factor)};
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(CeilDiv(rows, rows_of_warp) * tiles, kWarps));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(PadRowsKernel<Unit>, config, stream, call, static_cast<Unit*>(out));
}

}  // namespace

bool PadsByRows(const PadCopy& pad, PadUnit unit, const void* out) {
  const int64_t in_row_bytes = int64_t{pad.in[0]} * pad.elem_bytes;  // which a lane counts
  if (unit.bytes > 8 || unit.alignment < unit.bytes || !IsAligned(out, kPackBytes) || !FitsIndex(pad.elems) ||
      !FitsIndex(in_row_bytes)) {
    return false;
  }
  const int64_t bytes = pad.out[0] * pad.elem_bytes, packs = bytes / kPackBytes;
  return pad.rank > 1 && bytes % kPackBytes == 0 &&
         static_cast<double>(packs) >= kLeastLanes * static_cast<double>(TilesOf(packs) * 32);
}

Status LaunchPadRows(const PadCopy& pad, PadUnit unit, const void* in, PadValue value, void* out,
                     device::Stream stream) {
  switch (unit.bytes) {
    case 1:
      return Launch<uint8_t>(pad, in, value, out, stream);
    case 2:
      return Launch<uint16_t>(pad, in, value, out, stream);
    case 4:
      return Launch<uint32_t>(pad, in, value, out, stream);
    default:
      return Launch<uint64_t>(pad, in, value, out, stream);
  }
}

}  // namespace cudaep::kernels
