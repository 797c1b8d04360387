// CUPTI's activity records. A call made inside a scope leaves a correlation record (call -> scope); what it queued
// leaves records with the call's number when it is done, in other buffers, which may come first.
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device.h"
#include "lib/activity.h"
#include "lib/cuda/cupti_api.h"
#include "lib/loader.h"

namespace cudaep::lib {
namespace {

using cupti::Api;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kBufferAlignment = 8;
// Work whose call is not known yet; most of it was queued outside of every scope, and nobody will ever ask for it.
constexpr size_t kMostWaiting = size_t{1} << 17;
// Calls inside scopes are remembered in two generations of this many, 64 MiB together: work may come after later calls.
constexpr size_t kCallsOfGeneration = size_t{1} << 20;
constexpr cupti::Kind kKinds[] = {cupti::kCorrelation, cupti::kRuntimeCall, cupti::kDriverCall, cupti::kKernel,
                                  cupti::kCopy,        cupti::kFill,        cupti::kPeerCopy};
// Of the fill that shows a flush how far the records have come.
constexpr uint64_t kMarkScope = ~uint64_t{0};
constexpr int kMostFlushes = 500;
constexpr auto kBetweenFlushes = std::chrono::milliseconds(2);

class CuptiTrace final : public ActivityTrace {
 public:
  explicit CuptiTrace(const Api& api) : api_(api) {}

  Status Start(ActivitySink* sink) override {
    // The subscription is CUPTI's way to say that somebody traces: with another tool's, ours would take its buffers.
    CUDAEP_RETURN_IF_ERROR(Call(api_.cuptiSubscribe(&subscriber_, &IgnoreCallback, nullptr), "cuptiSubscribe"));
    {
      const std::lock_guard lock(mutex_);
      sink_ = sink;
      lost_ = 0;
    }
    Status status =
        Call(api_.cuptiActivityRegisterCallbacks(&GiveBuffer, &TakeBuffer), "cuptiActivityRegisterCallbacks");
    for (const cupti::Kind kind : kKinds) {
      if (status.ok()) status = Call(api_.cuptiActivityEnable(kind), "cuptiActivityEnable");
    }
    // CUPTI keeps the callbacks for the process's life, whatever is disabled.
    if (!std::exchange(stays_mapped_, true)) StayMapped();
    if (!status.ok()) Stop();
    return status;
  }

  // CUPTI stays loaded: to detach it while other threads call CUDA is not safe. The flush takes the buffers back.
  void Stop() override {
    for (const cupti::Kind kind : kKinds) static_cast<void>(api_.cuptiActivityDisable(kind));
    {
      const std::lock_guard lock(mutex_);
      sink_ = nullptr;
    }
    static_cast<void>(api_.cuptiActivityFlushAll(cupti::kFlushForced));
    static_cast<void>(api_.cuptiUnsubscribe(subscriber_));
    const std::lock_guard lock(mutex_);
    Forget();
  }

  Status Flush(bool alone) override {
    if (!alone) return FlushUpToNow();
    const Status status = FlushForced(false);
    const std::lock_guard lock(mutex_);
    Forget();
    return status;
  }

  uint64_t Lost() const override {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

  uint64_t Now() const override {
    uint64_t now = 0;
    static_cast<void>(api_.cuptiGetTimestamp(&now));
    return now;
  }

  void PushScope(uint64_t scope) override {
    static_cast<void>(api_.cuptiActivityPushExternalCorrelationId(cupti::kOurScopes, scope));
  }
  void PopScope() override {
    uint64_t scope = 0;
    static_cast<void>(api_.cuptiActivityPopExternalCorrelationId(cupti::kOurScopes, &scope));
  }

  bool simulated() const override { return false; }

 private:
  Status Call(cupti::Code code, const char* call) const { return cupti::ToStatus(api_, code, call); }
  static void IgnoreCallback(void*, int, uint32_t, const void*) {}

  static void GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *most_records = 0;
  }
  static void TakeBuffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid);

  // What still runs comes without an end then, and never again.
  Status FlushForced(bool unfinished_is_lost) {
    {
      const std::lock_guard lock(mutex_);
      unfinished_is_lost_ = unfinished_is_lost;
    }
    Status status = Call(api_.cuptiActivityFlushAll(cupti::kFlushForced), "cuptiActivityFlushAll");
    const std::lock_guard lock(mutex_);
    unfinished_is_lost_ = false;
    return status;
  }

  // A buffer with records of work that still runs is kept back, and other threads may always have some. A fill that is
  // done comes after all that its device had done before it.
  Status FlushUpToNow() {
    {
      const std::lock_guard lock(mutex_);
      mark_seen_ = false;
    }
    PushScope(kMarkScope);
    const bool is_marked = Mark().ok();
    PopScope();
    for (int i = 0; is_marked && i < kMostFlushes; ++i) {
      CUDAEP_RETURN_IF_ERROR(Call(api_.cuptiActivityFlushAll(0), "cuptiActivityFlushAll"));
      {
        const std::lock_guard lock(mutex_);
        if (mark_seen_) return Status::Ok();
      }
      std::this_thread::sleep_for(kBetweenFlushes);
    }
    // Somebody's work runs for longer than this waits, or the device is lost: what is done counts more than what is
    // not.
    return FlushForced(true);
  }

  // Where a device's fills go. Kept, since to free memory would wait for the device.
  struct MarkPlace {
    device::Stream stream = nullptr;
    void* byte = nullptr;
  };

  // On the current device. None of this ends a capture under way.
  Status Mark() {
    int ordinal = 0;
    CUDAEP_RETURN_IF_ERROR(device::GetDevice(&ordinal));
    device::CaptureMode mode = device::CaptureMode::kRelaxed;
    device::ThreadExchangeCaptureMode(&mode).IgnoreError();
    Status status = Fill(&marks_[ordinal]);
    if (!status.ok()) {
      // A device that was reset has neither stream nor memory any more: to give them back is not safe either.
      marks_[ordinal] = {};
      status = Fill(&marks_[ordinal]);
    }
    device::ThreadExchangeCaptureMode(&mode).IgnoreError();
    return status;
  }

  static Status Fill(MarkPlace* place) {
    if (place->stream == nullptr) CUDAEP_RETURN_IF_ERROR(device::StreamCreate(&place->stream));
    if (place->byte == nullptr) CUDAEP_RETURN_IF_ERROR(device::Malloc(&place->byte, 1));
    CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(place->byte, 0, 1, place->stream));
    return device::StreamSynchronize(place->stream);
  }

  // All below with the mutex held.
  void Read(uint8_t* buffer, size_t valid) {
    void* record = nullptr;
    cupti::Code code = cupti::kSuccess;
    while ((code = api_.cuptiActivityGetNextRecord(buffer, valid, &record)) == cupti::kSuccess) ReadRecord(record);
    if (code != cupti::kEndOfBuffer) ++lost_;
    MatchWaiting();
    size_t dropped = 0;
    if (api_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == cupti::kSuccess) lost_ += dropped;
    if (sink_ != nullptr && !found_.empty()) sink_->Take(found_);
    found_.clear();
  }

  void ReadRecord(const void* record) {
    switch (*static_cast<const cupti::Kind*>(record)) {
      case cupti::kCorrelation: {
        const auto& correlation = *static_cast<const cupti::CorrelationRecord*>(record);
        if (correlation.scope_kind == cupti::kOurScopes) Correlate(correlation.call, correlation.id);
        break;
      }
      case cupti::kKernel: {
        const auto& kernel = *static_cast<const cupti::KernelRecord*>(record);
        Take(kernel, ActivityKind::kKernel, 0, kernel.name);
        break;
      }
      case cupti::kCopy:
        Take(*static_cast<const cupti::CopyRecord*>(record), ActivityKind::kCopy);
        break;
      case cupti::kFill:
        Take(*static_cast<const cupti::CopyRecord*>(record), ActivityKind::kFill);
        break;
      case cupti::kPeerCopy:
        Take(*static_cast<const cupti::PeerCopyRecord*>(record), ActivityKind::kCopy);
        break;
      default:
        break;
    }
  }

  template <class Record>
  void Take(const Record& record, ActivityKind kind) {
    Take(record, kind, record.bytes, "");
  }
  template <class Record>
  void Take(const Record& record, ActivityKind kind, uint64_t bytes, const char* name) {
    if (record.end_ns == 0 && !unfinished_is_lost_) return;
    Activity activity{.kind = kind,
                      .name = "",
                      .begin_ns = record.begin_ns,
                      .end_ns = record.end_ns,
                      .bytes = bytes,
                      .scope = 0,
                      .call = record.call,
                      .graph_node = record.graph_node,
                      .ordinal = static_cast<int>(record.device),
                      .stream = record.stream};
    if (name != nullptr && *name != '\0') activity.name = names_.emplace(name).first->c_str();
    if (const uint64_t* const scope = ScopeOf(record.call)) {
      Find(activity, *scope);
    } else {
      waiting_.push_back(activity);
      if (waiting_.size() > kMostWaiting) waiting_.erase(waiting_.begin(), waiting_.begin() + kMostWaiting / 2);
    }
  }

  void Find(Activity activity, uint64_t scope) {
    if (scope == kMarkScope) {
      mark_seen_ = true;
      return;
    }
    if (activity.end_ns == 0) {
      ++lost_;
      return;
    }
    activity.scope = scope;
    found_.push_back(activity);
  }

  void Correlate(uint32_t call, uint64_t scope) {
    if (ScopeOf(call) != nullptr) return;  // a call of the runtime's and the driver's below it
    if (scopes_.size() >= kCallsOfGeneration) {
      older_scopes_ = std::move(scopes_);
      scopes_.clear();
    }
    scopes_.emplace(call, scope);
    new_calls_ = true;
  }

  const uint64_t* ScopeOf(uint64_t call) const {
    for (const auto* scopes : {&scopes_, &older_scopes_}) {
      if (const auto found = scopes->find(static_cast<uint32_t>(call)); found != scopes->end()) return &found->second;
    }
    return nullptr;
  }

  // Work whose call has become known, looked through once a buffer.
  void MatchWaiting() {
    if (!std::exchange(new_calls_, false)) return;
    std::erase_if(waiting_, [&](const Activity& activity) {
      const uint64_t* const scope = ScopeOf(activity.call);
      if (scope == nullptr) return false;
      Find(activity, *scope);
      return true;
    });
  }

  void Forget() {
    scopes_.clear();
    older_scopes_.clear();
    waiting_.clear();
    found_.clear();
  }

  const Api& api_;
  std::map<int, MarkPlace> marks_;  // by ordinal
  bool stays_mapped_ = false;
  cupti::Subscriber subscriber_ = nullptr;
  mutable std::mutex mutex_;
  ActivitySink* sink_ = nullptr;
  uint64_t lost_ = 0;
  bool mark_seen_ = false, new_calls_ = false, unfinished_is_lost_ = false;
  std::unordered_map<uint32_t, uint64_t> scopes_, older_scopes_;  // of calls
  std::deque<Activity> waiting_;
  std::vector<Activity> found_;
  std::set<std::string, std::less<>> names_;
};

// Set before the first buffer is asked for.
CuptiTrace* g_trace = nullptr;

void CuptiTrace::TakeBuffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer != nullptr && valid != 0) {
    const std::lock_guard lock(g_trace->mutex_);
    g_trace->Read(buffer, valid);
  }
  std::free(buffer);
}

}  // namespace

Result<ActivityTrace*> FindActivityTrace() {
  CUDAEP_ASSIGN_OR_RETURN(const Api* const api, cupti::Cupti());
  static auto* const trace = g_trace = new CuptiTrace(*api);
  return trace;
}

}  // namespace cudaep::lib
