// The simulated device's own clock and observer.
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/sim/sim.h"
#include "lib/activity.h"

namespace cudaep::lib {
namespace {

namespace sim = device::sim;

// Told when somebody flushes, or when there are this many.
constexpr size_t kMostKept = size_t{1} << 14;

// The scopes around the calling thread's, which an unloaded library would not find again if the thread had to end them.
struct OuterScope {
  uint64_t scope;
  OuterScope* next;
};
thread_local constinit OuterScope* t_outer = nullptr;

class SimulatedTrace final : public ActivityTrace {
 public:
  Status Start(ActivitySink* sink) override {
    {
      const std::lock_guard lock(mutex_);
      sink_ = sink;
    }
    sim::ObserveActivity([](const sim::Activity& activity) { Get().Keep(activity); });
    return Status::Ok();
  }

  void Stop() override {
    sim::ObserveActivity(nullptr);
    const std::lock_guard lock(mutex_);
    kept_.clear();
    sink_ = nullptr;
  }

  Status Flush(bool) override {
    const std::lock_guard lock(mutex_);
    Tell();
    return Status::Ok();
  }

  uint64_t Lost() const override { return 0; }
  uint64_t Now() const override { return sim::ActivityClock(); }

  void PushScope(uint64_t scope) override { t_outer = new OuterScope{sim::ExchangeActivityScope(scope), t_outer}; }
  void PopScope() override {
    if (t_outer == nullptr) return;
    const std::unique_ptr<OuterScope> popped(std::exchange(t_outer, t_outer->next));
    sim::ExchangeActivityScope(popped->scope);
  }

  bool simulated() const override { return true; }

  static SimulatedTrace& Get() {
    static auto* const trace = new SimulatedTrace;
    return *trace;
  }

 private:
  struct Kept {
    Activity activity;
    const void* kernel = nullptr;  // its name is read later: that takes longer than most kernels
  };

  // With the device's lock held.
  void Keep(const sim::Activity& from) {
    if (from.scope == 0) return;
    const std::lock_guard lock(mutex_);
    Kept kept{.activity = {.begin_ns = from.begin_ns,
                           .end_ns = from.end_ns,
                           .bytes = from.bytes,
                           .scope = from.scope,
                           .call = from.call,
                           .graph_node = from.graph_node,
                           .ordinal = from.ordinal,
                           .stream = from.stream},
              .kernel = from.kernel};
    if (from.kind == sim::Activity::Kind::kCopy) kept.activity.kind = ActivityKind::kCopy;
    if (from.kind == sim::Activity::Kind::kFill) kept.activity.kind = ActivityKind::kFill;
    if (from.kind == sim::Activity::Kind::kLibrary) {
      kept.activity.name = names_.emplace(from.library_work).first->c_str();
    }
    kept_.push_back(kept);
    if (kept_.size() == kMostKept) Tell();
  }

  // With the mutex held.
  void Tell() {
    std::vector<Activity> activities;
    activities.reserve(kept_.size());
    for (const Kept& kept : kept_) {
      activities.push_back(kept.activity);
      if (kept.kernel != nullptr) activities.back().name = NameOf(kept.kernel);
    }
    kept_.clear();
    if (sink_ != nullptr && !activities.empty()) sink_->Take(activities);
  }

  const char* NameOf(const void* kernel) {
    const char*& name = kernels_[kernel];
    if (name == nullptr) name = names_.insert(sim::NameOfKernel(kernel)).first->c_str();
    return name;
  }

  std::mutex mutex_;  // locked inside the device's lock
  ActivitySink* sink_ = nullptr;
  std::vector<Kept> kept_;
  std::map<const void*, const char*> kernels_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

Result<ActivityTrace*> FindActivityTrace() { return &SimulatedTrace::Get(); }

}  // namespace cudaep::lib
