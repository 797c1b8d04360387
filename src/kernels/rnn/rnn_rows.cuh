// The state as the fused step's product reads it: in the order of tensor-core fragments.
//
// Eight rows of the batch go together, and of each 64 bytes of elements: a group, of which lane 4 g + t holds 16 bytes
// of row g, those from 16 t on. Groups of one set of rows follow each other, so a warp loads 512 bytes in a row. Rows
// and elements beyond the state are zeros, as are the weights that meet them.
#pragma once

#include "core/checked_math.h"
#include "device/tensor_core.h"
#include "kernels/rnn/rnn.h"

namespace cudaep::kernels {

inline constexpr int kRnnRowTile = 8;
inline constexpr int kRnnGroupBytes = 64;  // of a row
inline constexpr int kRnnPackBytes = 16;

CUDAEP_HOST_DEVICE constexpr int64_t RnnGroups(int64_t hidden, size_t element_bytes) {
  return CeilDiv<int64_t>(hidden * static_cast<int64_t>(element_bytes), kRnnGroupBytes);
}

template <class T>
struct RnnRows {
  static constexpr int kPack = kRnnPackBytes / sizeof(T);
  T* data = nullptr;  // null: nobody reads them
  int64_t row_tiles = 0, groups = 0;
  bool tf32 = false;      // elements are rounded to it
  uint8_t zeros[7] = {};  // where padding could hold most of an old pointer, which the simulated device would find

  RnnRows() = default;
  RnnRows(const RnnShape& shape, void* rows, bool round)
      : data(static_cast<T*>(rows)),
        row_tiles(CeilDiv<int64_t>(shape.batch, kRnnRowTile)),
        groups(RnnGroups(shape.hidden, sizeof(T))),
        tf32(round) {}

  __device__ __forceinline__ void Set(int64_t direction, int64_t row, int64_t unit, T value) const {
    if (data == nullptr) return;
    if constexpr (std::is_same_v<T, float>) {
      if (tf32) value = std::bit_cast<float>(device::Tf32Word(value));
    }
    const int64_t pack = unit / kPack;
    const int64_t tile = (direction * row_tiles + row / kRnnRowTile) * groups + pack / 4;
    data[((tile * kRnnRowTile + row % kRnnRowTile) * 4 + pack % 4) * kPack + unit % kPack] = value;
  }
};

}  // namespace cudaep::kernels
