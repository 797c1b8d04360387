#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/softmax/softmax.h"

namespace cudaep::kernels {
namespace {

SoftmaxRowPlan Resident(SoftmaxRowPlan plan) {
  // Half of what layer normalisation wants, which has a scale to fetch anew for each block (measured on an H200: 93%
  // of the device copy for 16384 x 4096 in fp16, 89% with twice as many rows for each block).
  plan.iterations = CeilDiv(plan.iterations, 2);
  return plan;
}

// Rows that pass through a ring of shared memory.
SoftmaxRowPlan Long(SoftmaxRowPlan plan, int64_t rows, int64_t blocks_per_processor, const device::DeviceInfo& device) {
  plan.long_threads = static_cast<unsigned>(kLongThreads / blocks_per_processor);
  // The maxima and sums of a block's warps, of this row and the next.
  const size_t other_bytes = plan.long_threads / 32 * 4 * sizeof(float);
  plan.slots = LongSlots(device, plan.long_threads, blocks_per_processor, other_bytes);
  plan.blocks = LongBlocks(rows, std::max(device.multiprocessors, 1) * blocks_per_processor);
  return plan;
}

}  // namespace

SoftmaxRowPlan PlanSoftmax(DataType type, int64_t rows, int64_t elems, const device::DeviceInfo& device) {
  const SoftmaxRowPlan plan{PlanRows(rows, elems, SizeOf(type), true)};
  if (plan.resident) return Resident(plan);
  if (plan.pack == 1 || rows == 0) return plan;
  // Two blocks for each multiprocessor where one of them can hold a row and has a slot left for the next.
  const int64_t packs = elems / plan.pack;
  const int64_t half_chunk = int64_t{kLongThreads} / 2 * kLongChunk;
  return Long(plan, rows, packs <= half_chunk * (kLongHeld + kLongSlots - 1) ? 2 : 1, device);
}

Result<SoftmaxRowPlan> PlanSoftmax(DataType type, int64_t rows, int64_t elems, const device::DeviceInfo& device,
                                   const SoftmaxChoice& forced) {
  if (forced.long_threads != kLongThreads && forced.long_threads != kLongThreads / 2) {
    return InvalidArgument("no softmax of long rows has blocks of ", forced.long_threads, " threads");
  }
  CUDAEP_ASSIGN_OR_RETURN(const RowPlan row_plan, PlanRows(rows, elems, SizeOf(type), forced));
  const SoftmaxRowPlan plan{row_plan};
  if (plan.resident) return Resident(plan);
  if (plan.pack == 1 || rows == 0) return plan;
  return Long(plan, rows, kLongThreads / forced.long_threads, device);
}

}  // namespace cudaep::kernels
