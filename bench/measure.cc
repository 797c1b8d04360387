#include "measure.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/float16.h"

namespace cudaep::bench {
namespace {

constexpr int kWarmUpCalls = 3;

// Normal values whose bits mean something finite whether they are read as fp16, as bf16 or pairwise as fp32.
std::vector<uint16_t> RandomPattern() {
  std::vector<uint16_t> pattern(size_t{1} << 20);
  std::mt19937 generator(7);
  std::uniform_real_distribution<float> values(0.25f, 3.0f);
  for (uint16_t& bits : pattern) bits = HalfFromFloat(values(generator)).bits;
  return pattern;
}

}  // namespace

Result<Timing> MeasureUs(const std::function<Status(int)>& work, int calls, int repeats, device::Stream stream) {
  device::UniqueEvent begin, end;
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(begin.Receive(), device::EventKind::kTiming));
  CUDAEP_RETURN_IF_ERROR(device::EventCreate(end.Receive(), device::EventKind::kTiming));
  int call = 0;
  for (int i = 0; i < kWarmUpCalls; ++i) {
    CUDAEP_RETURN_IF_ERROR(work(call++));
  }
  std::vector<double> samples;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream));
    CUDAEP_RETURN_IF_ERROR(device::EventRecord(begin.get(), stream));
    for (int i = 0; i < calls; ++i) {
      CUDAEP_RETURN_IF_ERROR(work(call++));
    }
    CUDAEP_RETURN_IF_ERROR(device::EventRecord(end.get(), stream));
    CUDAEP_RETURN_IF_ERROR(device::EventSynchronize(end.get()));
    float milliseconds = 0;
    CUDAEP_RETURN_IF_ERROR(device::EventElapsedMs(&milliseconds, begin.get(), end.get()));
    samples.push_back(1e3 * milliseconds / calls);
  }
  std::sort(samples.begin(), samples.end());
  return Timing{samples[samples.size() / 2], samples.front(), samples.back()};
}

Result<RotatingBuffers> RotatingBuffers::Create(const std::vector<size_t>& tensor_bytes, device::Stream stream) {
  static const std::vector<uint16_t> pattern = RandomPattern();
  const size_t pattern_bytes = pattern.size() * sizeof(uint16_t);
  const size_t set_bytes = std::accumulate(tensor_bytes.begin(), tensor_bytes.end(), size_t{1});
  RotatingBuffers buffers;
  buffers.sets_.resize(1 + (kRotationBytes + set_bytes - 1) / set_bytes);
  for (auto& set : buffers.sets_) {
    for (size_t bytes : tensor_bytes) {
      auto& memory = set.emplace_back();
      CUDAEP_RETURN_IF_ERROR(device::Malloc(memory.Receive(), std::max<size_t>(bytes, 1)));
      for (size_t at = 0; at < bytes; at += pattern_bytes) {
        CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(static_cast<char*>(memory.get()) + at, pattern.data(),
                                                   std::min(pattern_bytes, bytes - at), stream));
      }
    }
  }
  CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(stream));
  return buffers;
}

}  // namespace cudaep::bench
