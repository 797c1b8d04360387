#include "kernels/movement/pad_source.cuh"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 2;           // on their way to a thread
constexpr int64_t kMostRowsOfWarp = 16;  // 32 and fewer: a lane works out where one of them comes from
constexpr int64_t kManyWarps = 4096;     // that keep a large GPU busy; with fewer a warp has fewer rows
constexpr double kLeastLanes = 0.75;     // of a row's last warp's, and those before, that have a pack

template <class Unit>
struct PadRows {
  const Unit* in;
  PadValue value;
  int32_t elem_bytes;
  PadMode mode;
  uint32_t rows, rows_of_warp, packs;  // of a row
  FastDivider tiles;                   // of 32 packs of a row
  PadView<uint32_t> view;
  Readable readable;
};

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

// What MapPosition gives where one reflection, or one period, leads into the input (IsNear).
template <PadMode mode>
__device__ __forceinline__ int32_t MapNear(int32_t position, int32_t size) {
  const auto magnitude = [](int32_t x) { return device::Max(x, -x); };
  if constexpr (mode == PadMode::kReflect) return size - 1 - magnitude(size - 1 - magnitude(position));
  if constexpr (mode == PadMode::kEdge) return device::Min(device::Max(position, 0), size - 1);
  if constexpr (mode == PadMode::kWrap)
    return position < 0 ? position + size : position < size ? position : position - size;
  return position;
}

template <PadMode mode, class Unit, int kPack>
__device__ __forceinline__ Pack<Unit, kPack> LoadMapped(const Unit* row, int32_t columns, int32_t column,
                                                        Unit constant) {
  Pack<Unit, kPack> units;
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const int32_t from = MapNear<mode>(column + k, columns);
    units.value[k] = constant;
    if (row != nullptr && from >= 0 && from < columns) units.value[k] = row[from];
  }
  return units;
}

// A pack of row `start` of the input, from `column` of it on, unit by unit.
template <class Unit, int kPack>
__device__ __forceinline__ Pack<Unit, kPack> LoadUnits(const PadRows<Unit>& pad, int64_t start, int32_t column,
                                                       Unit constant) {
  const auto* row = reinterpret_cast<const Unit*>(reinterpret_cast<const std::byte*>(pad.in) + start);
  const int32_t columns = pad.view.in[0];
  switch (pad.mode) {
    case PadMode::kReflect:
      return LoadMapped<PadMode::kReflect, Unit, kPack>(row, columns, column, constant);
    case PadMode::kEdge:
      return LoadMapped<PadMode::kEdge, Unit, kPack>(row, columns, column, constant);
    case PadMode::kWrap:
      return LoadMapped<PadMode::kWrap, Unit, kPack>(row, columns, column, constant);
    case PadMode::kConstant:
      break;
  }
  return LoadMapped<PadMode::kConstant, Unit, kPack>(start < 0 ? nullptr : row, columns, column, constant);
}

// Place of bit `index` of those that are set.
__device__ __forceinline__ int PlaceOfBit(unsigned bits, uint32_t index) {
  for (; index > 0; --index) bits &= bits - 1;
  return __ffs(static_cast<int>(bits)) - 1;
}

template <class Unit>
__global__ void __launch_bounds__(kThreads, sizeof(Unit) == 1   ? 2
                                            : sizeof(Unit) == 2 ? 3
                                                                : 4)
    PadRowsKernel(const __grid_constant__ PadRows<Unit> pad, Unit* out) {
  constexpr int kPack = PackElems(sizeof(Unit));
  using Words = Pack<uint32_t, 4>;
  const unsigned lane = threadIdx.x % 32, below = (1u << lane) - 1;
  uint32_t tile;
  const uint32_t group = pad.tiles.DivideWithRemainder(blockIdx.x * kWarps + threadIdx.x / 32, &tile);
  const uint32_t first = group * pad.rows_of_warp, pack = tile * 32 + lane;
  const uint32_t rows = first < pad.rows ? device::Min(pad.rows - first, pad.rows_of_warp) : 0;
  const int64_t lane_start = lane < rows ? RowStart(pad, first + lane) : 0;
  // The same for all rows: a pack that lies in the input, or one at a row's end.
  const auto column_of = [&](uint32_t p) { return static_cast<int32_t>(p) * kPack - pad.view.begin[0]; };
  const int32_t column = column_of(pack), columns = pad.view.in[0];
  const bool inside = column >= 0 && column + kPack <= columns && pack < pad.packs;
  const int64_t offset = int64_t{column} * static_cast<int64_t>(sizeof(Unit));
  Unit* const column_out = out + (int64_t{first} * pad.packs + pack) * kPack;
  device::GridDependencyWait();
  Unit constant{};
  if (pad.mode == PadMode::kConstant) constant = Repeat<Unit>(pad.value, pad.elem_bytes);
  // The packs at the ends of some rows, one a lane, which the lanes of those packs then take: stores of whole sectors.
  const unsigned ends = __ballot_sync(device::kFullWarp, pack < pad.packs && !inside);
  const auto row_ends = static_cast<uint32_t>(__popc(ends)), own_end = static_cast<uint32_t>(__popc(ends & below));
  const uint32_t rows_together = row_ends == 0 ? rows : 32 / row_ends;
#pragma unroll 1
  for (uint32_t begin = 0; begin < rows; begin += rows_together) {
    const uint32_t end = device::Min(begin + rows_together, rows);
    Words end_words{};
    if (row_ends != 0) {
      const uint32_t row = begin + lane / row_ends;
      const int64_t start = __shfl_sync(device::kFullWarp, lane_start, static_cast<int>(row % 32));
      const uint32_t place = tile * 32 + static_cast<uint32_t>(PlaceOfBit(ends, lane % row_ends));
      if (row < end) {
        end_words = std::bit_cast<Words>(LoadUnits<Unit, kPack>(pad, start, column_of(place), constant));
      }
    }
#pragma unroll 1
    for (uint32_t r = begin; r < end; r += kRowsAtOnce) {
      ShiftedGroups groups[kRowsAtOnce];
      Pack<Unit, kPack> units[kRowsAtOnce];
      bool whole[kRowsAtOnce];
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const int64_t start = __shfl_sync(device::kFullWarp, lane_start, static_cast<int>(r) + i);
        const auto* const row = reinterpret_cast<const std::byte*>(pad.in) + start;
        whole[i] = inside && start >= 0 && r + i < end && groups[i].Load(row + offset, pad.readable);
        if (!whole[i] && inside && r + i < end) {
          units[i] = LoadMapped<PadMode::kConstant, Unit, kPack>(
              start < 0 ? nullptr : reinterpret_cast<const Unit*>(row), columns, column, constant);
        }
      }
#pragma unroll
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const auto from = static_cast<int>((r + i - begin) * row_ends + own_end);
        Words words;
#pragma unroll
        for (int w = 0; w < 4; ++w) words.value[w] = __shfl_sync(device::kFullWarp, end_words.value[w], from % 32);
        if (pack >= pad.packs || r + i >= end) continue;
        if (inside) words = whole[i] ? groups[i].template Shifted<Unit>() : std::bit_cast<Words>(units[i]);
        *reinterpret_cast<Words*>(column_out + int64_t{r + i} * pad.packs * kPack) = words;
      }
    }
  }
}

// Whether what lies beside a row's elements is one reflection, or one period, away from them.
bool IsNear(const PadCopy& pad) {
  const int64_t before = pad.begin[0], behind = pad.out[0] - pad.in[0] - pad.begin[0], most = std::max(before, behind);
  switch (pad.mode) {
    case PadMode::kReflect:
      return most < pad.in[0];
    case PadMode::kWrap:
      return most <= pad.in[0];
    case PadMode::kEdge:
    case PadMode::kConstant:
      break;
  }
  return true;
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
                           .view = MakePadView<uint32_t>(pad, factor),
                           .readable = ReadablePad(pad, in)};
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
  return pad.rank > 1 && bytes % kPackBytes == 0 && IsNear(pad) &&
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
