// Scores of tokens that would repeat a sequence of n tokens become -infinity: com.microsoft's NGramRepeatBlock.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// For each entry: where the last n - 1 tokens also stood before, the token that followed there is blocked. Tokens
// outside of the vocabulary block nothing: the device cannot refuse a value.
struct NGramBlock {
  int64_t batch = 0, length = 0, vocabulary = 0;
  int64_t n = 1;                    // from 1 on
  const int64_t* tokens = nullptr;  // [batch, length]
  const float* scores = nullptr;    // [batch, vocabulary]
  float* blocked = nullptr;         // the same; may be `scores`
};

// One launch; memory bound by the scores.
Status LaunchNGramBlock(const NGramBlock& block, device::Stream stream);

}  // namespace cudaep::kernels
