#include <algorithm>
#include <limits>

#include "core/checked_math.h"
#include "device/launch.h"
#include "kernels/generate/ngram.h"

namespace cudaep::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kScoresOfBlock = 8192;

// A block has a part of the scores of an entry, and blocks the tokens in it.
__global__ void __launch_bounds__(kThreads) NGramKernel(NGramBlock p) {
  device::GridDependencyWait();
  const int64_t first = blockIdx.x * kScoresOfBlock, end = device::Min(p.vocabulary, first + kScoresOfBlock);
  for (int64_t entry = blockIdx.y; entry < p.batch; entry += gridDim.y) {
    const float* const from = p.scores + entry * p.vocabulary;
    float* const to = p.blocked + entry * p.vocabulary;
    for (int64_t i = first + threadIdx.x; i < end; i += kThreads) to[i] = from[i];
    __syncthreads();
    const int64_t* const tokens = p.tokens + entry * p.length;
    const int64_t* const last = tokens + p.length - p.n + 1;
    for (int64_t start = threadIdx.x; start + p.n <= p.length; start += kThreads) {
      const int64_t next = tokens[start + p.n - 1];
      bool repeats = next >= first && next < end;
      for (int64_t i = 0; repeats && i < p.n - 1; ++i) repeats = tokens[start + i] == last[i];
      if (repeats) to[next] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace

Status LaunchNGramBlock(const NGramBlock& block, device::Stream stream) {
  if (block.batch == 0 || block.vocabulary == 0) return Status::Ok();
  const int64_t parts = CeilDiv(block.vocabulary, kScoresOfBlock);
  if (!FitsInt32(parts)) return NotSupported("a vocabulary of ", block.vocabulary);
  device::LaunchConfig config;
  config.grid.x = static_cast<unsigned>(parts);
  config.grid.y = static_cast<unsigned>(std::min<int64_t>(block.batch, 65535));
  config.block.x = kThreads;
  config.programmatic = true;
  return device::Launch(NGramKernel, config, stream, block);
}

}  // namespace cudaep::kernels
