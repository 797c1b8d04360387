// The part of a head's state that a thread of linear attention holds: kRows rows of 4 neighbouring columns. kLanes
// threads share the columns, each having 4 neighbouring rows of every 4 * kLanes.
#pragma once

#include "device/launch.h"
#include "kernels/common/raw_pack.cuh"

namespace cudaep::kernels {

inline constexpr int kStateColumns = 4;

template <int kRows_, int kLanes_>
struct StateTile {
  static constexpr int kRows = kRows_, kLanes = kLanes_;
  static constexpr int kKeys = kRows * kLanes;                      // rows of the state, padded with zeros
  static constexpr int kWarpColumns = 32 / kLanes * kStateColumns;  // columns of a warp
  static constexpr int kKeysOfLane = kKeys < 32 ? 1 : kKeys / 32;   // of a warp that reads a vector of keys
  static_assert(kRows % 4 == 0 && kKeys >= 32);
  using Values = float[kRows][kStateColumns];

  static __device__ __forceinline__ int Row(int i, int lane) { return (i / 4) * 4 * kLanes + lane * 4 + i % 4; }
  // Those of the thread's rows, of a vector of keys in shared memory.
  static __device__ __forceinline__ void ReadRows(const float* vector, int lane, float (&value)[kRows]) {
#pragma unroll
    for (int i = 0; i < kRows; i += 4) UnpackCompute<float, 4>(LoadRaw<4>(vector + Row(i, lane)), value + i);
  }
};

// The state of one head in memory, and which of it the thread has.
struct StatePlace {
  int keys, values;  // sizes
  int column;        // the thread's first
  int lane;          // of those that share the columns
  bool packs;        // rows of the state are whole, aligned groups of 4 elements
};

// Calls group(first row, which of 4 neighbouring rows or columns, offset, elements of the state from there on) for each
// 4 elements of the thread that are neighbours in memory.
template <class Tile, bool kValueRows, class Group>
__device__ __forceinline__ void ForStateGroups(const StatePlace& place, Group&& group) {
#pragma unroll
  for (int block = 0; block < Tile::kRows; block += 4) {
    const int row = Tile::Row(block, place.lane);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int first = kValueRows ? (place.column + j) * place.keys + row : (row + j) * place.values + place.column;
      const int inside = kValueRows ? (place.column + j < place.values ? place.keys - row : 0)
                                    : (row + j < place.keys ? place.values - place.column : 0);
      group(block, j, first, inside);
    }
  }
}

template <class Tile, class S, bool kValueRows>
__device__ __forceinline__ void ReadState(const S* from, const StatePlace& place, typename Tile::Values& state) {
  ForStateGroups<Tile, kValueRows>(place, [&](int block, int j, int first, int inside) {
    float value[4] = {};
    if (place.packs && inside > 0) {
      UnpackCompute<S, 4>(LoadRaw<4>(from + first), value);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (e < inside) value[e] = Load(from[first + e]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) state[block + (kValueRows ? e : j)][kValueRows ? j : e] = value[e];
  });
}

template <class Tile, class S, bool kValueRows>
__device__ __forceinline__ void WriteState(S* to, const StatePlace& place, const typename Tile::Values& state) {
  ForStateGroups<Tile, kValueRows>(place, [&](int block, int j, int first, int inside) {
    float value[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) value[e] = state[block + (kValueRows ? e : j)][kValueRows ? j : e];
    if (place.packs && inside > 0) {
      StoreWords<4>(to + first, PackCompute<S, 4>(value));
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (e < inside) to[first + e] = Store<S>(value[e]);
      }
    }
  });
}

// The sum over the threads that share the columns.
template <class Tile>
__device__ __forceinline__ void SumOfLanes(float (&value)[kStateColumns]) {
#pragma unroll
  for (int offset = 32 / Tile::kLanes; offset < 32; offset *= 2) {
#pragma unroll
    for (float& one : value) one += __shfl_xor_sync(device::kFullWarp, one, offset);
  }
}

}  // namespace cudaep::kernels
