#include "kernels/common/long_rows.h"

#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"

namespace cudaep::kernels {
namespace {

constexpr size_t kSystemSharedBytes = 1024;  // that each block takes beside its own

}  // namespace

int LongSlots(const device::DeviceInfo& device, unsigned threads, int64_t blocks, size_t other_bytes) {
  const size_t shared_bytes = std::min(device.shared_bytes_per_multiprocessor / static_cast<size_t>(blocks),
                                       device.shared_bytes_per_block + kSystemSharedBytes);
  const size_t taken = kSystemSharedBytes + threads / 32 * kLongSlots * sizeof(uint64_t) + other_bytes;
  const size_t fitting = (std::max(shared_bytes, taken) - taken) / LongSlotBytes(threads);
  return static_cast<int>(std::clamp<size_t>(fitting, 1, kLongSlots));
}

int64_t LongBlocks(int64_t rows, int64_t resident) {
  const int64_t wanted = std::max<int64_t>(rows, 1);
  return CeilDiv(wanted, CeilDiv(wanted, std::max<int64_t>(resident, 1)));
}

}  // namespace cudaep::kernels
