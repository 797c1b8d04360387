#include "runtime/plan_timing.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "core/float16.h"
#include "memory/allocation_label.h"

namespace cudaep {
namespace {

constexpr int64_t kPatternElems = 1 << 16;

template <class T>
std::vector<std::byte> PatternOf() {
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  std::vector<std::byte> bytes(kPatternElems * sizeof(T));
  for (int64_t i = 0; i < kPatternElems; ++i) {
    const float x = values(generator);
    T value{};
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(x * 16.0f);
    } else {
      value = Store<T>(static_cast<ComputeType<T>>(x));
    }
    std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> Pattern(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return PatternOf<Half>();
    case DataType::kBFloat16:
      return PatternOf<BFloat16>();
    case DataType::kDouble:
      return PatternOf<double>();
    case DataType::kInt8:
      return PatternOf<int8_t>();
    case DataType::kInt32:
      return PatternOf<int32_t>();
    default:
      return PatternOf<float>();
  }
}

}  // namespace

TimingTensors::~TimingTensors() {
  if (blocks_.empty()) return;
  device::StreamSynchronize(stream_.stream()).IgnoreError();
  const auto allocator = stream_.memory()->workspaces();
  for (void* block : blocks_) allocator->Free(block);
}

Result<void*> TimingTensors::Uninitialised(size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  static const char* const label = memory::InternLabel("measuring plans");
  const memory::LabelScope scope(label);
  CUDAEP_ASSIGN_OR_RETURN(void* const block, stream_.memory()->workspaces()->AllocateOnStream(bytes, stream_.stream()));
  blocks_.push_back(block);
  return block;
}

Result<void*> TimingTensors::Random(DataType type, int64_t elems) {
  const size_t bytes = static_cast<size_t>(elems) * SizeOf(type);
  CUDAEP_ASSIGN_OR_RETURN(void* const block, Uninitialised(bytes));
  if (block == nullptr) return block;
  const std::vector<std::byte> pattern = Pattern(type);
  size_t filled = std::min(bytes, pattern.size());
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(block, pattern.data(), filled, stream_.stream()));
  while (filled < bytes) {
    const size_t more = std::min(filled, bytes - filled);
    CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(static_cast<std::byte*>(block) + filled, block, more, stream_.stream()));
    filled += more;
  }
  return block;
}

Result<std::vector<float>> TimeAlternatives(StreamContext& stream, size_t alternatives,
                                            const std::function<Status(size_t)>& run, int rounds, int64_t most_ms) {
  constexpr float kFailed = std::numeric_limits<float>::infinity();
  TimingTensors tensors(stream);
  const size_t flush_bytes = 2 * stream.device_info().l2_bytes;
  CUDAEP_ASSIGN_OR_RETURN(void* const flushed, tensors.Uninitialised(flush_bytes));
  device::UniqueEvent begin, end;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(begin.Receive(), device::EventKind::kTiming));
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(end.Receive(), device::EventKind::kTiming));
  std::vector<std::vector<float>> samples(alternatives);
  std::vector<bool> failed(alternatives, false);
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return most_ms != 0 && std::chrono::steady_clock::now() - start > std::chrono::milliseconds(most_ms);
  };
  bool has_run = false;                            // any of them
  for (int round = -1; round < rounds; ++round) {  // the first loads kernels
    for (size_t i = 0; i < alternatives; ++i) {
      if (round < 0 && has_run && is_late()) failed[i] = true;
      if (failed[i] || (round > 0 && is_late())) continue;
      if (flushed != nullptr) {
        CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(flushed, round & 1, flush_bytes, stream.stream()));
      }
      CUDAEP_RETURN_IF_ERROR(device::EventRecord(begin.get(), stream.stream()));
      const Status status = run(i);
      if (status.code() == StatusCode::kDeviceLost) return status;
      CUDAEP_RETURN_IF_ERROR(device::EventRecord(end.get(), stream.stream()));
      CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(end.get()));
      float ms = 0;
      CUDAEP_RETURN_IF_ERROR(device::EventElapsedMs(&ms, begin.get(), end.get()));
      failed[i] = !status.ok();
      has_run = has_run || status.ok();
      if (round >= 0) samples[i].push_back(ms);
    }
  }
  std::vector<float> medians;
  for (size_t i = 0; i < alternatives; ++i) {
    auto& times = samples[i];
    if (failed[i] || times.empty()) {
      medians.push_back(kFailed);
      continue;
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    medians.push_back(times[times.size() / 2]);
  }
  return medians;
}

}  // namespace cudaep
