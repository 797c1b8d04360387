#include <algorithm>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/device_info.h"
#include "kernels/attention/linear_attention.h"
#include "kernels/attention/linear_tokens.cuh"

namespace cudaep::kernels {
namespace {

// Warps of a block; fewer where threads hold so much that they need all registers there are.
constexpr int kMostWorkers = 4;
template <class Tile>
constexpr int kMostBringers = Tile::kRows < 16 ? 8 : 4;
template <class Tile>
constexpr unsigned kMostThreads = 32 * (kMostWorkers + kMostBringers<Tile>);

struct Arguments {
  LinearAttention problem;
  LinearAttentionPointers at;
  TokenLayout layout;
  int workers = 0, bringers = 0;  // warps that hold the state, and that bring a token each
  int packs = 0, unused = 0;
};

// Tokens of a batch entry.
struct TokenRange {
  int64_t first, count;
};

__device__ __forceinline__ TokenRange TokensOf(const Arguments& g, int64_t entry) {
  if (g.at.offsets == nullptr) {
    const int64_t each = g.problem.tokens / g.problem.batch;
    return {entry * each, each};
  }
  // Offsets are the device's, which cannot refuse them: what lies outside is left out.
  const int64_t first = device::Min<int64_t>(device::Max(g.at.offsets[entry], 0), g.problem.tokens);
  const int64_t end = device::Min<int64_t>(g.at.offsets[entry + 1], g.problem.tokens);
  return {first, device::Max<int64_t>(end - first, 0)};
}

// The tables of transitions of an entry: decays, keys and differences of each captured token.
struct Updates {
  float *decays, *keys, *differences;
  int64_t count = 0;  // tokens that are captured

  __device__ Updates(const Arguments& g, int64_t entry, int64_t tokens) {
    const LinearAttention& p = g.problem;
    const int64_t decay_width = p.heads * (g.layout.decays ? p.key_size : 1);
    const int64_t key_width = p.k_heads * p.key_size, width = decay_width + key_width + p.heads * p.value_size;
    decays = g.at.updates + entry * p.capacity * width;
    keys = decays + p.capacity * decay_width;
    differences = keys + p.capacity * key_width;
    if (p.capture) {
      count = device::Min(device::Min<int64_t>(device::Max(g.at.captured[entry], 0), p.capacity), tokens);
    }
  }
};

__device__ __forceinline__ int64_t StateOffset(const LinearAttention& p, int64_t slot, int64_t entry, int64_t head) {
  return ((slot * p.batch + entry) * p.heads + head) * p.key_size * p.value_size;
}

// Zeros in the block's columns of the first `slots` states.
__device__ __forceinline__ void ClearSlots(const Arguments& g, int64_t slots, int64_t entry, const HeadPlace& head) {
  const LinearAttention& p = g.problem;
  const unsigned columns = static_cast<unsigned>(device::Min<int64_t>(g.layout.columns, p.value_size - head.column));
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int64_t at = StateOffset(p, slot, entry, head.head) + head.column;
    for (unsigned i = threadIdx.x; i < p.key_size * columns; i += blockDim.x) {
      StoreElement(p.state_type, g.at.present, at + i / columns * p.value_size + i % columns, 0);
    }
  }
}

template <class Tile>
__device__ __forceinline__ void CopyState(const Arguments& g, int64_t slot, int64_t entry, int64_t head,
                                          const StatePlace& place, bool write, typename Tile::Values& state) {
  const LinearAttention& p = g.problem;
  const int64_t at = StateOffset(p, slot, entry, head);
  const auto copy = [&]<class S, bool kValueRows>() {
    if (write) {
      WriteState<Tile, S, kValueRows>(static_cast<S*>(g.at.present) + at, place, state);
    } else {
      ReadState<Tile, S, kValueRows>(static_cast<const S*>(g.at.past) + at, place, state);
    }
  };
  if (p.value_rows) {
    copy.template operator()<float, true>();
  } else if (p.state_type == DataType::kFloat) {
    copy.template operator()<float, false>();
  } else if (p.state_type == DataType::kFloat16) {
    copy.template operator()<Half, false>();
  } else {
    copy.template operator()<BFloat16, false>();
  }
}

// What a warp does with one token: the state's step, and a result for each query.
template <class Tile>
__device__ __forceinline__ void Step(const Arguments& g, const float* token, const HeadPlace& head,
                                     const StatePlace& place, int64_t index, int first_column, float* differences,
                                     typename Tile::Values& state) {
  const LinearAttention& p = g.problem;
  const float head_decay = token[g.layout.scalars()], beta = token[g.layout.scalars() + 1];
  if (g.layout.decays) {
    float decay[Tile::kRows];
    Tile::ReadRows(token + g.layout.decay(), place.lane, decay);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (float& one : state[i]) one *= decay[i];
    }
  } else if (p.decay == LinearDecay::kHead) {
#pragma unroll
    for (auto& row : state) {
#pragma unroll
      for (float& one : row) one *= head_decay;
    }
  }
  float key[Tile::kRows];
  Tile::ReadRows(token, place.lane, key);
  float difference[kStateColumns];
#pragma unroll
  for (int c = 0; c < kStateColumns; ++c) difference[c] = token[g.layout.values() + first_column + c];
  if (p.delta) {
    float retrieved[kStateColumns] = {};
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kStateColumns; ++c) retrieved[c] += key[i] * state[i][c];
    }
    SumOfLanes<Tile>(retrieved);
#pragma unroll
    for (int c = 0; c < kStateColumns; ++c) difference[c] = beta * (difference[c] - retrieved[c]);
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < kStateColumns; ++c) state[i][c] += key[i] * difference[c];
  }
  if (p.key_size < Tile::kKeys) {  // an infinite difference makes no NaN of rows that are not there
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      if (Tile::Row(i, place.lane) < p.key_size) continue;
#pragma unroll
      for (float& one : state[i]) one = 0;
    }
  }
  const auto store = [&](const float(&value)[kStateColumns], auto&& to) {
#pragma unroll
    for (int c = 0; c < kStateColumns; ++c) {
      if (place.lane == c && place.column + c < p.value_size) to(place.column + c, value[c]);
    }
  };
  if (differences != nullptr) {
    store(difference, [&](int64_t column, float value) { differences[head.head * p.value_size + column] = value; });
  }
  for (int query = 0; query < g.layout.queries; ++query) {
    float of_row[Tile::kRows], result[kStateColumns] = {};
    Tile::ReadRows(token + g.layout.query(query), place.lane, of_row);
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kStateColumns; ++c) result[c] += of_row[i] * state[i][c];
    }
    SumOfLanes<Tile>(result);
    const int64_t row = (index * p.heads + head.head) * g.layout.queries + query;
    store(result, [&](int64_t column, float value) {
      StoreElement(p.type, g.at.y, row * p.value_size + column, p.scale * value);
    });
  }
}

// The decay and the key of a captured token, from shared memory. By the block of the first columns.
__device__ __forceinline__ void Capture(const Arguments& g, const Updates& updates, const HeadPlace& head,
                                        const float* token, int64_t index, int lane) {
  const LinearAttention& p = g.problem;
  if (g.layout.decays) {
    float* const to = updates.decays + (index * p.heads + head.head) * p.key_size;
    for (int64_t i = lane; i < p.key_size; i += 32) to[i] = token[g.layout.decay() + i];
  } else if (lane == 0) {
    updates.decays[index * p.heads + head.head] = token[g.layout.scalars()];
  }
  if (head.head % (p.heads / p.k_heads) != 0) return;
  float* const to = updates.keys + (index * p.k_heads + head.k_head) * p.key_size;
  for (int64_t i = lane; i < p.key_size; i += 32) to[i] = token[i];
}

// A block has some columns of one head's state: blockIdx.x is head and columns, blockIdx.y the entry. The first
// `workers` warps have columns each, the others bring tokens.
template <class Tile>
__global__ void __launch_bounds__(kMostThreads<Tile>) LinearAttentionKernel(__grid_constant__ const Arguments g) {
  device::GridDependencyWait();
  const LinearAttention& p = g.problem;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned head_index = blockIdx.x % static_cast<unsigned>(p.heads);
  const HeadPlace head{
      .head = head_index,
      .column = int64_t{blockIdx.x / static_cast<unsigned>(p.heads)} * g.layout.columns,
      .k_head = head_index / (p.heads / p.k_heads),
      .q_head = p.q_heads > p.heads ? head_index * (p.q_heads / p.heads) : head_index / (p.heads / p.q_heads)};
  float* const shared = device::DynamicShared<float>();
  const int group_floats = g.bringers * g.layout.floats();
  const bool works = warp < g.workers;
  constexpr int kColumnLanes = 32 / Tile::kLanes;
  const int first_column = warp * Tile::kWarpColumns + lane % kColumnLanes * kStateColumns;
  const StatePlace place{static_cast<int>(p.key_size), static_cast<int>(p.value_size),
                         static_cast<int>(head.column) + first_column, lane / kColumnLanes, g.packs != 0};
  for (int64_t entry = blockIdx.y; entry < p.batch; entry += gridDim.y) {
    const TokenRange tokens = TokensOf(g, entry);
    const Updates updates(g, entry, tokens.count);
    typename Tile::Values state = {};
    if (works && g.at.past != nullptr) CopyState<Tile>(g, p.window - 1, entry, head.head, place, false, state);
    // Slots of the window that no token of this call has.
    const int64_t steps = device::Max<int64_t>(tokens.count, 1);  // without tokens the past state is the present one
    if (g.at.present != nullptr) ClearSlots(g, p.window - steps, entry, head);
    // The bringers are a group of tokens ahead.
    const int64_t groups = (steps + g.bringers - 1) / g.bringers;
    for (int64_t group = -1; group < groups; ++group) {
      if (!works && group + 1 < groups) {
        const int64_t index = (group + 1) * g.bringers + warp - g.workers;
        float* const token = shared + (group + 1) % 2 * group_floats + (warp - g.workers) * g.layout.floats();
        if (index < tokens.count) {
          BringToken<Tile>(p, g.at, g.layout, head, tokens.first + index, lane, token);
          if (index < updates.count && head.column == 0) {
            __syncwarp();
            Capture(g, updates, head, token, index, lane);
          }
        }
      }
      if (works && group >= 0) {
        for (int i = 0; i < g.bringers && group * g.bringers + i < steps; ++i) {
          const int64_t index = group * g.bringers + i;
          const float* const token = shared + group % 2 * group_floats + i * g.layout.floats();
          float* const differences =
              index < updates.count ? updates.differences + index * p.heads * p.value_size : nullptr;
          if (index < tokens.count) {
            Step<Tile>(g, token, head, place, tokens.first + index, first_column, differences, state);
          }
          const int64_t slot = p.window - steps + index;
          if (slot >= 0 && g.at.present != nullptr) CopyState<Tile>(g, slot, entry, head.head, place, true, state);
        }
      }
      __syncthreads();
    }
  }
}

template <class Tile>
Status Launch(const LinearAttention& p, const LinearAttentionPointers& at, const device::DeviceInfo& device,
              device::Stream stream) {
  Arguments g{.problem = p, .at = at};
  // Narrow blocks until each multiprocessor has one.
  const int64_t groups = CeilDiv<int64_t>(p.value_size, Tile::kWarpColumns);
  g.workers = static_cast<int>(std::min<int64_t>(kMostWorkers, groups));
  const auto blocks = [&] { return p.batch * p.heads * CeilDiv<int64_t>(groups, g.workers); };
  while (g.workers > 1 && blocks() < device.multiprocessors) g.workers = (g.workers + 1) / 2;
  g.layout.keys = Tile::kKeys;
  g.layout.queries = static_cast<int>(std::max<int64_t>(p.q_heads / p.heads, 1));
  g.layout.columns = g.workers * Tile::kWarpColumns;
  g.layout.decays = p.decay == LinearDecay::kRow;
  const int64_t longest = at.offsets != nullptr ? p.tokens : p.tokens / p.batch;
  const auto token_bytes = static_cast<int64_t>(2 * sizeof(float)) * g.layout.floats();  // in both groups
  const int64_t room = static_cast<int64_t>(device.shared_bytes_per_block) / token_bytes;
  if (room < 1) {
    return NotSupported(g.layout.queries, " queries of ", p.key_size, " elements need ", token_bytes,
                        " bytes of shared memory, the device has ", device.shared_bytes_per_block);
  }
  g.bringers = static_cast<int>(std::clamp<int64_t>(longest, 1, std::min<int64_t>(room, kMostBringers<Tile>)));
  const int64_t row = p.value_rows ? p.key_size : p.value_size;
  const size_t pack = 4 * SizeOf(p.state_type);
  g.packs = row % 4 == 0 && IsAligned(at.past, pack) && IsAligned(at.present, pack) ? 1 : 0;
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(p.heads * CeilDiv<int64_t>(groups, g.workers));
  config.grid.y = static_cast<unsigned>(std::min<int64_t>(p.batch, 65535));
  config.block.x = static_cast<unsigned>(32 * (g.workers + g.bringers));
  config.shared_bytes = static_cast<size_t>(g.bringers * token_bytes);
  config.programmatic = true;
  return device::Launch(LinearAttentionKernel<Tile>, config, stream, g);
}

}  // namespace

Status LaunchLinearAttention(const LinearAttention& p, const LinearAttentionPointers& at,
                             const device::DeviceInfo& device, device::Stream stream) {
  if (p.batch == 0 || p.heads == 0 || p.value_size == 0) return Status::Ok();
  if (!FitsInt32(p.heads * p.value_size) || !FitsInt32(kMostLinearKeySize * p.value_size)) {
    return NotSupported(p.heads, " heads of ", p.value_size, " values");
  }
  if (p.key_size <= 32) return Launch<StateTile<4, 8>>(p, at, device, stream);
  if (p.key_size <= 64) return Launch<StateTile<8, 8>>(p, at, device, stream);
  if (p.key_size <= 128) return Launch<StateTile<8, 16>>(p, at, device, stream);
  if (p.key_size <= 256) return Launch<StateTile<16, 16>>(p, at, device, stream);
  if (p.key_size <= kMostLinearKeySize) return Launch<StateTile<16, 32>>(p, at, device, stream);
  return NotSupported("keys of ", p.key_size, " elements, more than ", kMostLinearKeySize);
}

}  // namespace cudaep::kernels
