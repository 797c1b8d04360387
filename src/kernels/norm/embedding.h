// Embeddings of tokens: the sum of a row of each of up to three tables (word, place, segment), and its normalisation.
//
// A negative id counts from the end of its table, and an id outside of it adds nothing, as kernels/movement/gather.h.
#pragma once

#include <array>

#include "core/data_type.h"
#include "kernels/movement/gather.h"
#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

inline constexpr int kEmbeddingTables = 3;

struct EmbeddingTable {
  const void* rows = nullptr;  // [count, width]; null: nothing is added
  GatherIndices ids = {};      // the row of each token
  int64_t count = 0;
  int64_t period = 1;  // ids repeat after that many tokens; without ids, the row is the token's place in its period
};

struct EmbeddingArgs {
  DataType type = DataType::kUndefined;  // of kFloatTypes
  std::array<EmbeddingTable, kEmbeddingTables> tables = {};
  int64_t tokens = 0, width = 0;
  void* sum = nullptr;  // [tokens, width] in `type`, or null
};

// `wide_sum`: the sum in fp32 (fp64 for double), or null.
Status LaunchEmbeddingSum(const EmbeddingArgs& args, void* wide_sum, device::Stream stream);

struct EmbeddingNorm {
  const void* scale = nullptr;  // of `width` elements, as beta, which may be null
  const void* beta = nullptr;
  void* y = nullptr;
  double epsilon = 0;
  RowStatistic statistic = RowStatistic::kVariance;  // or kRms
};

// Whether one kernel both adds and normalises rows of `width` elements.
bool FitsEmbeddingNorm(DataType type, int64_t width);

// y = norm(sum); statistics of the sum in fp32, not of what is rounded to `type`. One launch.
Status LaunchEmbeddingNorm(const EmbeddingArgs& args, const EmbeddingNorm& norm, device::Stream stream);

// counts[b] = how many of the `length` values of row b of `mask` are 1.
Status LaunchCountOnes(const int32_t* mask, int64_t rows, int64_t length, int32_t* counts, device::Stream stream);

}  // namespace cudaep::kernels
