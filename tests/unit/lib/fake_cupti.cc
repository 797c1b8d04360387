// Stands for CUPTI: records of calls and of each device's work lie in buffers of their own, those of work are given out
// first, and a buffer with work that is not done is kept back unless a flush is forced.
#include "fake_cupti.h"

#include <cstring>
#include <map>
#include <mutex>

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace cupti = cudaep::cupti;

namespace {

constexpr size_t kStride = sizeof(cupti::KernelRecord);

struct Kernel {
  cupti::KernelRecord record{};
  bool is_done = false;
};
using Buffer = std::vector<size_t>;  // of kernels

thread_local std::vector<uint64_t> t_scopes;

// Never destroyed: threads may be inside scopes.
struct State {
  FakeCupti front;
  std::mutex mutex;
  cupti::RequestBuffer request = nullptr;
  cupti::CompleteBuffer complete = nullptr;
  uint32_t calls = 0;
  uint64_t pushed_last = 0;
  std::vector<cupti::CorrelationRecord> correlations;
  std::vector<Kernel> kernels;
  std::map<uint32_t, std::vector<Buffer>> buffers;  // of devices; work goes to the last one

  size_t Queue(const Kernel& kernel) {
    kernels.push_back(kernel);
    std::vector<Buffer>& of_device = buffers[kernel.record.device];
    if (of_device.empty()) of_device.emplace_back();
    of_device.back().push_back(kernels.size() - 1);
    return kernels.size() - 1;
  }
};
State& Get() {
  static auto* const state = [] {
    auto* made = new State;
    FakeCupti& front = made->front;
    front.call = [made] {
      const std::lock_guard lock(made->mutex);
      const uint32_t call = ++made->calls;
      if (!t_scopes.empty()) {
        made->correlations.push_back({cupti::kCorrelation, cupti::kOurScopes, t_scopes.back(), call});
        made->correlations.push_back({cupti::kCorrelation, cupti::kOurScopes - 2, 77, call});  // somebody else's kind
      }
      return call;
    };
    front.queue = [made](uint32_t call, const char* name, uint64_t graph_node) {
      const std::lock_guard lock(made->mutex);
      Kernel kernel;
      kernel.record.kind = cupti::kKernel;
      kernel.record.call = call;
      kernel.record.name = name;
      kernel.record.graph_node = graph_node;
      kernel.record.device = made->front.device;
      kernel.record.stream = 13;
      return made->Queue(kernel);
    };
    front.filled = [made](uint32_t device) {
      Kernel fill;
      fill.record.kind = cupti::kKernel;  // its record differs in nothing that matters here
      fill.record.name = "fill";
      fill.record.device = device;
      fill.record.begin_ns = 1;
      fill.record.end_ns = 2;
      fill.is_done = true;
      const std::lock_guard lock(made->mutex);
      fill.record.call = ++made->calls;
      made->correlations.push_back({cupti::kCorrelation, cupti::kOurScopes, made->pushed_last, fill.record.call});
      made->Queue(fill);
    };
    front.done = [made](size_t kernel, uint64_t begin_ns, uint64_t end_ns) {
      const std::lock_guard lock(made->mutex);
      made->kernels[kernel].record.begin_ns = begin_ns;
      made->kernels[kernel].record.end_ns = end_ns;
      made->kernels[kernel].is_done = true;
    };
    front.next_buffer = [made] {
      const std::lock_guard lock(made->mutex);
      for (auto& [device, buffers] : made->buffers) buffers.emplace_back();
    };
    return made;
  }();
  return *state;
}

// `bytes` of records of kStride each, through the client's callbacks.
template <class Record>
void Give(const std::vector<Record>& records) {
  if (records.empty()) return;
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 1;
  Get().request(&buffer, &size, &most);
  if (buffer == nullptr || size < records.size() * kStride || most != 0) return;
  std::memset(buffer, 0xff, records.size() * kStride);
  for (size_t i = 0; i < records.size(); ++i) std::memcpy(buffer + i * kStride, &records[i], sizeof(Record));
  Get().complete(nullptr, 0, buffer, size, records.size() * kStride);
}

}  // namespace

FakeCupti* fakeCupti() { return &Get().front; }

FAKE_EXPORT cupti::Code cuptiSubscribe(cupti::Subscriber* subscriber, cupti::Callback, void*) {
  if (Get().front.other_subscriber) return cupti::kOtherSubscriber;
  *subscriber = &Get();
  ++Get().front.subscribers;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiUnsubscribe(cupti::Subscriber subscriber) {
  if (subscriber != &Get()) return 1;
  --Get().front.subscribers;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityRegisterCallbacks(cupti::RequestBuffer request, cupti::CompleteBuffer complete) {
  Get().request = request;
  Get().complete = complete;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityEnable(cupti::Kind) {
  if (Get().front.forbidden) return cupti::kInsufficientPrivileges;
  ++Get().front.enabled;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityDisable(cupti::Kind) {
  if (Get().front.enabled > 0) --Get().front.enabled;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityFlushAll(uint32_t flag) {
  State& state = Get();
  if (state.front.at_flush) state.front.at_flush();
  const bool forced = (flag & cupti::kFlushForced) != 0;
  ++(forced ? state.front.forced : state.front.flushes);
  std::vector<std::vector<cupti::KernelRecord>> work;
  std::vector<cupti::CorrelationRecord> calls;
  {
    const std::lock_guard lock(state.mutex);
    for (auto& [device, buffers] : state.buffers) {
      for (Buffer& buffer : buffers) {
        bool is_whole = true;
        for (const size_t kernel : buffer) is_whole = is_whole && state.kernels[kernel].is_done;
        if (!is_whole && !forced) continue;
        work.emplace_back();
        for (const size_t kernel : buffer) work.back().push_back(state.kernels[kernel].record);
        buffer.clear();
      }
    }
    calls.swap(state.correlations);
  }
  for (const auto& records : work) Give(records);
  Give(calls);
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  uint8_t* const next = *record == nullptr ? buffer : static_cast<uint8_t*>(*record) + kStride;
  if (next >= buffer + valid) return cupti::kEndOfBuffer;
  *record = next;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = Get().front.dropped;
  Get().front.dropped = 0;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  if (kind != cupti::kOurScopes) return 1;
  t_scopes.push_back(id);
  const std::lock_guard lock(Get().mutex);
  Get().pushed_last = id;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* last) {
  if (kind != cupti::kOurScopes || t_scopes.empty()) return 1;
  *last = t_scopes.back();
  t_scopes.pop_back();
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiGetTimestamp(uint64_t* now) {
  *now = 1234;
  return cupti::kSuccess;
}
FAKE_EXPORT cupti::Code cuptiGetResultString(cupti::Code, const char** text) {
  *text = "refused";
  return cupti::kSuccess;
}
