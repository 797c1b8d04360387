#include <algorithm>

#include "core/checked_math.h"
#include "kernels/softmax/softmax.h"

namespace cudaep::kernels {
namespace {

// What a block takes beside its dynamic shared memory: the kernel's arrays, and what the system reserves.
constexpr size_t kOtherSharedBytes = 2048;

}  // namespace

SoftmaxRowPlan PlanSoftmax(DataType type, int64_t rows, int64_t elems, const device::DeviceInfo& device) {
  SoftmaxRowPlan plan{PlanRows(rows, elems, SizeOf(type), true)};
  if (plan.resident) {
    // Half of what layer normalisation wants, which has a scale to fetch anew for each block (measured on an H200: 93%
    // of the device copy for 16384 x 4096 in fp16, 89% with twice as many rows for each block).
    plan.iterations = CeilDiv(plan.iterations, 2);
    return plan;
  }
  if (plan.pack == 1 || rows == 0) return plan;
  // Two blocks for each multiprocessor where one of them can hold a row.
  const int64_t packs = elems / plan.pack;
  const int64_t blocks_per_processor = packs <= kLongThreads / 2 * kLongChunk * (kLongCachedChunks + 1) ? 2 : 1;
  plan.long_threads = static_cast<unsigned>(kLongThreads / blocks_per_processor);
  const size_t chunk_bytes = size_t{plan.long_threads} * kLongChunk * kPackBytes;
  const size_t shared_bytes =
      std::min(device.shared_bytes_per_multiprocessor / static_cast<size_t>(blocks_per_processor),
               device.shared_bytes_per_block + kOtherSharedBytes / 2);
  const int64_t fitting =
      static_cast<int64_t>((std::max(shared_bytes, kOtherSharedBytes) - kOtherSharedBytes) / chunk_bytes);
  const int64_t chunks = CeilDiv<int64_t>(packs, int64_t{plan.long_threads} * kLongChunk);
  plan.cached_chunks = static_cast<int>(std::min<int64_t>({fitting, chunks, kLongCachedChunks}));
  // As few rounds as there can be, and of blocks no more than these take.
  const int64_t resident_blocks = std::max(device.multiprocessors, 1) * blocks_per_processor;
  plan.blocks = CeilDiv(rows, CeilDiv(rows, resident_blocks));
  return plan;
}

}  // namespace cudaep::kernels
