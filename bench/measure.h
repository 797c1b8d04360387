// Device time of repeated work, with events, over buffers that rotate so that the L2 cache stays cold.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/status.h"
#include "device/device.h"

namespace cudaep::bench {

// Bytes that must pass through memory before a buffer comes round again; several times the L2 of any current GPU.
inline constexpr size_t kRotationBytes = size_t{256} << 20;

struct Timing {
  double median_us = 0, min_us = 0, max_us = 0;  // of one call, over the repeats
};

// Calls `work(i)` for i = 0, 1, 2, ...; each repeat times `calls` of them together.
Result<Timing> MeasureUs(const std::function<Status(int)>& work, int calls, int repeats, device::Stream stream);

// Sets of device memory holding random values (16-bit patterns that are finite in fp16, bf16 and fp32).
class RotatingBuffers {
 public:
  // `tensor_bytes` of each tensor of a set; enough sets that kRotationBytes lie between two uses of one.
  static Result<RotatingBuffers> Create(const std::vector<size_t>& tensor_bytes, device::Stream stream);
  void* Tensor(int call, size_t index) const { return sets_[static_cast<size_t>(call) % sets_.size()][index].get(); }

 private:
  std::vector<std::vector<device::UniqueDeviceMemory>> sets_;
};

}  // namespace cudaep::bench
