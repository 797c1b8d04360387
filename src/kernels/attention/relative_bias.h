// What attention adds to its scores for the distance of key and query: com.microsoft's RelativePositionBias (T5) and
// GatedRelativePositionBias (WavLM).
//
// Memory bound: the first writes, the second reads and writes [heads, queries, keys].
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kRelativeBiasTypes{DataType::kFloat, DataType::kFloat16};

// out[h, q, k] = table[h, bucket of k - q]. Each side of the query has `buckets`: the first half of them one for each
// distance, the others for ranges that grow as the logarithm in fp32 says, up to max_distance, and the last for all
// beyond. Keys behind the query have their own buckets, after those of the others, if `bidirectional`; otherwise they
// count as its own position.
struct RelativeBias {
  DataType type = DataType::kFloat;
  bool bidirectional = false;
  uint8_t unused[2] = {};  // whole words, which the simulated device takes for addresses
  float range = 0;         // logarithm of max_distance over half of `buckets`
  int64_t heads = 0, buckets = 0, queries = 0, keys = 0;
};

// `table` is [heads, buckets of all sides]. At most 65535 heads. One launch.
Status LaunchRelativeBias(const RelativeBias& bias, const void* table, void* out, device::Stream stream);

// out[b, h, s, :] = gate rel_pos[h, s, :], where gate = sigmoid(u) (sigmoid(r) eco_a[h] - 1) + 2, and u and r are the
// sums of the first and of the last half of (query + query_bias) weight + bias, in fp32. Of a token that is padding
// the query is zero.
struct GatedBias {
  DataType type = DataType::kFloat;
  int32_t columns = 0;  // of the weight, even
  int64_t batch = 0, heads = 0, steps = 0, size = 0;
  int64_t tokens = 0;                     // that have a query: batch * steps where token_offset is null
  const void* query = nullptr;            // [tokens, heads, size]
  const void* query_bias = nullptr;       // [heads, size]
  const void* rel_pos = nullptr;          // [heads, steps, steps]
  const void* weight = nullptr;           // [size, columns]
  const void* bias = nullptr;             // [columns]
  const void* eco_a = nullptr;            // [heads]
  const int32_t* token_offset = nullptr;  // [batch * steps]: where each token lies, those that are padding last
  void* out = nullptr;                    // [batch, heads, steps, steps]
};

// An offset outside of the batch is passed over. One launch.
Status LaunchGatedBias(const GatedBias& bias, device::Stream stream);

}  // namespace cudaep::kernels
