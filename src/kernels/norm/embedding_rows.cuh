// The rows of tables that are added up for a token.
#pragma once

#include "kernels/common/raw_pack.cuh"
#include "kernels/movement/index_tuples.cuh"
#include "kernels/norm/embedding.h"

namespace cudaep::kernels {

// Null: nothing is added.
template <class T>
struct EmbeddingRows {
  const T* row[kEmbeddingTables];

  __device__ __forceinline__ EmbeddingRows(const EmbeddingArgs& args, int64_t token) {
#pragma unroll
    for (int t = 0; t < kEmbeddingTables; ++t) {
      const EmbeddingTable& table = args.tables[t];
      row[t] = nullptr;
      if (table.rows == nullptr) continue;
      int64_t id = token < table.period ? token : token % table.period;
      if (table.ids.pointer != nullptr) id = WithinAxis(ReadIndex(table.ids, id), table.count);
      if (id >= 0 && id < table.count) row[t] = static_cast<const T*>(table.rows) + id * args.width;
    }
  }
  // Adds packs `step` elements apart, from `column` on, those that has(j); all loads before anything waits for one.
  template <int kPack, int kPacks, class Has>
  __device__ __forceinline__ void AddTo(ComputeType<T> (&sum)[kPacks][kPack], int64_t column, int step,
                                        const Has& has) const {
    RawPack<T, kPack> raw[kEmbeddingTables][kPacks] = {};
#pragma unroll
    for (int t = 0; t < kEmbeddingTables; ++t) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        if (row[t] != nullptr && has(j)) raw[t][j] = LoadRaw<kPack>(row[t] + column + j * step);
      }
    }
#pragma unroll
    for (int t = 0; t < kEmbeddingTables; ++t) {
#pragma unroll
      for (int j = 0; j < kPacks; ++j) {
        ComputeType<T> term[kPack];
        UnpackCompute<T, kPack>(raw[t][j], term);
#pragma unroll
        for (int k = 0; k < kPack; ++k) sum[j][k] += term[k];
      }
    }
  }
};

// Whether what the kernels access may be accessed in packs.
template <class... Pointers>
bool AllowsPacks(const EmbeddingArgs& args, int pack, Pointers... others) {
  bool aligned = args.width % pack == 0 && IsAligned(args.sum, kPackBytes) && (IsAligned(others, kPackBytes) && ...);
  for (const EmbeddingTable& table : args.tables) aligned = aligned && IsAligned(table.rows, kPackBytes);
  return aligned;
}

}  // namespace cudaep::kernels
