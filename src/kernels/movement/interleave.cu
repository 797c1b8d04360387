#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"
#include "kernels/movement/transpose.h"
#include "kernels/pack.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kItems = 2;  // of a thread, all loaded before the first is stored

// An item is InterleaveElems of each way.
struct InterleaveGrid {
  FastDivider row_items;
  uint32_t items;
  int64_t apart;  // from way to way on the side where they are rows
  int batch_rank;
  FastDivider batch_size[kMaxStridedRank];
  int64_t batch_in_stride[kMaxStridedRank];
  int64_t batch_out_stride[kMaxStridedRank];
};

template <class Unit, int kWays, bool kJoin>
__global__ void __launch_bounds__(kThreads)
    InterleaveKernel(const Unit* in, Unit* out, __grid_constant__ const InterleaveGrid grid) {
  constexpr int kElems = InterleaveElems(sizeof(Unit), kWays);
  using Rows = Pack<Unit, kElems>[kWays];
  using Joined = Pack<Unit, kElems * kWays>;
  std::conditional_t<kJoin, Rows, Joined> read[kItems];
  int64_t to[kItems];
  const uint32_t first = blockIdx.x * (kItems * kThreads) + threadIdx.x;
  device::GridDependencyWait();
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    uint32_t item = first + i * kThreads, at;
    if (item >= grid.items) break;
    uint32_t rest = grid.row_items.DivideWithRemainder(item, &at);
    int64_t from = static_cast<int64_t>(at) * (kJoin ? kElems : kElems * kWays);
    to[i] = static_cast<int64_t>(at) * (kJoin ? kElems * kWays : kElems);
    for (int d = 0; d < grid.batch_rank; ++d) {
      uint32_t coordinate = rest;
      if (d + 1 < grid.batch_rank) rest = grid.batch_size[d].DivideWithRemainder(rest, &coordinate);
      from += static_cast<int64_t>(coordinate) * grid.batch_in_stride[d];
      to[i] += static_cast<int64_t>(coordinate) * grid.batch_out_stride[d];
    }
    if constexpr (kJoin) {
#pragma unroll
      for (int way = 0; way < kWays; ++way) read[i][way] = LoadPack<kElems>(in + from + way * grid.apart);
    } else {
      read[i] = LoadPack<kElems * kWays>(in + from);
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    if (first + i * kThreads >= grid.items) break;
    std::conditional_t<kJoin, Joined, Rows> written;
#pragma unroll
    for (int way = 0; way < kWays; ++way) {
#pragma unroll
      for (int k = 0; k < kElems; ++k) {
        if constexpr (kJoin) {
          written.value[k * kWays + way] = read[i][way].value[k];
        } else {
          written[way].value[k] = read[i].value[k * kWays + way];
        }
      }
    }
    if constexpr (kJoin) {
      StorePack(out + to[i], written);
    } else {
#pragma unroll
      for (int way = 0; way < kWays; ++way) StorePack(out + to[i] + way * grid.apart, written[way]);
    }
  }
}

template <class Unit, int kWays>
Status LaunchWays(const TransposePlan& plan, const void* in, void* out, device::Stream stream) {
  constexpr int64_t kElems = InterleaveElems(sizeof(Unit), kWays);
  const TransposeTiles& tiles = plan.tiles;
  const bool join = plan.kind == TransposeKind::kJoin;
  const int64_t row_items = (join ? tiles.a_size : tiles.b_size) / kElems;
  const int64_t items = plan.bytes / static_cast<int64_t>(sizeof(Unit)) / (kElems * kWays);
  if (!FitsIndex(items + kItems * kThreads) || !IsAligned(in, kPackBytes) || !IsAligned(out, kPackBytes)) {
    return LaunchStridedCopy(plan.rows, in, out, stream);
  }
  InterleaveGrid grid{};
  grid.row_items = FastDivider(static_cast<uint32_t>(row_items));
  grid.items = static_cast<uint32_t>(items);
  grid.apart = join ? tiles.in_stride : tiles.out_stride;
  grid.batch_rank = tiles.batch_rank;
  for (int d = 0; d < tiles.batch_rank; ++d) {
    grid.batch_size[d] = FastDivider(static_cast<uint32_t>(tiles.batch_size[d]));
    grid.batch_in_stride[d] = tiles.batch_in_stride[d];
    grid.batch_out_stride[d] = tiles.batch_out_stride[d];
  }
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(items, kItems * kThreads));
  config.block.x = kThreads;
  config.programmatic = true;
  const auto kernel = join ? InterleaveKernel<Unit, kWays, true> : InterleaveKernel<Unit, kWays, false>;
  return device::Launch(kernel, config, stream, static_cast<const Unit*>(in), static_cast<Unit*>(out), grid);
}

template <class Unit>
Status LaunchUnits(const TransposePlan& plan, const void* in, void* out, device::Stream stream) {
  switch (plan.kind == TransposeKind::kJoin ? plan.tiles.b_size : plan.tiles.a_size) {
    case 2:
      return LaunchWays<Unit, 2>(plan, in, out, stream);
    case 3:
      return LaunchWays<Unit, 3>(plan, in, out, stream);
    default:
      return LaunchWays<Unit, 4>(plan, in, out, stream);
  }
}

}  // namespace

Status LaunchInterleave(const TransposePlan& plan, const void* in, void* out, device::Stream stream) {
  switch (plan.tiles.elem_bytes) {
    case 1:
      return LaunchUnits<uint8_t>(plan, in, out, stream);
    case 2:
      return LaunchUnits<uint16_t>(plan, in, out, stream);
    case 4:
      return LaunchUnits<uint32_t>(plan, in, out, stream);
    default:
      return LaunchUnits<uint64_t>(plan, in, out, stream);
  }
}

}  // namespace cudaep::kernels
