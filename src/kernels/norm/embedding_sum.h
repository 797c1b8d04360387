// The sum of the embeddings of a token: word, place and segment, each a row of a table.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"

namespace cudaep::kernels {

struct EmbeddingTable {
  const void* rows = nullptr;    // [count, width]; null: nothing is added
  const int32_t* ids = nullptr;  // the row of each token
  int64_t count = 0;
  int64_t period = 0;  // ids repeat after that many tokens; without ids, the row is the token's place in its period
};

struct EmbeddingSumArgs {
  DataType type = DataType::kUndefined;  // of kFloatTypes
  EmbeddingTable word, position, segment;
  int64_t tokens = 0, width = 0;
  void* sum = nullptr;      // [tokens, width], fp32 (fp64 for double)
  void* rounded = nullptr;  // the same in `type`, or null
};

// An id outside of its table adds nothing.
Status LaunchEmbeddingSum(const EmbeddingSumArgs& args, device::Stream stream);

// counts[b] = how many of the `length` values of row b of `mask` are 1.
Status LaunchCountOnes(const int32_t* mask, int64_t rows, int64_t length, int32_t* counts, device::Stream stream);

}  // namespace cudaep::kernels
