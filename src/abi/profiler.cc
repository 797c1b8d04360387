#include "abi/profiler.h"

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>

#include "abi/thunk.h"
#include "core/clock_pair.h"
#include "core/log.h"
#include "core/strings.h"

namespace cudaep::abi {
namespace {

constexpr std::string_view kNodeSuffix = "_kernel_time";  // of the host's events for a node
constexpr size_t kBatch = 1024;

struct EventTraits {
  using Type = OrtProfilingEvent*;
  static Type Null() { return nullptr; }
  static void Release(Type event) { Host().ep->ReleaseProfilingEvent(event); }
};
using UniqueEvent = UniqueHandle<EventTraits>;

// Some hosts write texts into the profile as they are.
std::string Plain(std::string text) {
  for (char& c : text) {
    if (c == '"') c = '\'';
    if (c == '\\') c = '/';
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  // What begins like JSON all of them write as it is.
  if (text.starts_with('[') || text.starts_with('{')) text.insert(0, 1, ' ');
  return text;
}

std::string ReadableName(const char* name) {
  int failure = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(::abi::__cxa_demangle(name, nullptr, nullptr, &failure),
                                                         &std::free);
  return Plain(failure == 0 && text != nullptr ? text.get() : name);
}

// The names of the process's kernels, each read once.
class KernelNames {
 public:
  const std::string& Of(const lib::Activity& activity) {
    if (activity.kind == lib::ActivityKind::kCopy) return copy_;
    if (activity.kind == lib::ActivityKind::kFill) return fill_;
    std::string& name = names_[activity.name];
    if (name.empty()) name = ReadableName(activity.name);
    return name;
  }

 private:
  const std::string copy_ = "copy", fill_ = "fill";
  std::map<const char*, std::string> names_;
};

// Keys and texts of one event's arguments, which live as long as it.
class Arguments {
 public:
  void Add(const char* key, std::string value) {
    if (value.empty()) return;
    keys_[count_] = key;
    values_[count_++] = std::move(value);
  }
  Status Create(const char* name, int process, int thread, int64_t begin_us, int64_t us, UniqueEvent* event) const {
    std::array<const char*, kMost> texts{};
    for (size_t i = 0; i < count_; ++i) texts[i] = values_[i].c_str();
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->CreateProfilingEvent(OrtProfilingEventCategory_KERNEL, process, thread, name,
                                                               begin_us, us, keys_.data(), texts.data(), count_,
                                                               event->Receive()));
    return Status::Ok();
  }

 private:
  static constexpr size_t kMost = 16;
  std::array<const char*, kMost> keys_{};
  std::array<std::string, kMost> values_;
  size_t count_ = 0;
};

const char* ArgumentOf(const OrtProfilingEvent* event, const char* key) {
  const char* value = nullptr;
  if (OrtStatus* failure = Host().ep->ProfilingEvent_GetArgValue(event, key, &value)) {
    Host().ort->ReleaseStatus(failure);
    return "";
  }
  return value == nullptr ? "" : value;
}

std::string TextOf(double count) { return count == 0 ? std::string() : StrCat(static_cast<uint64_t>(count)); }

void LogOnce(std::string_view text) {
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (!said.test_and_set()) Log(LogLevel::kWarning, text);
}

}  // namespace

EpProfiler::EpProfiler(std::shared_ptr<SessionState> state) : OrtEpProfilerImpl{}, state_(std::move(state)) {
  ort_version_supported = Host().version;
  Release = Thunk<&EpProfiler::OnRelease>();
  StartProfiling = Thunk<&EpProfiler::OnStartProfiling>();
  StartEvent = Thunk<&EpProfiler::OnStartEvent>();
  StopEvent = Thunk<&EpProfiler::OnStopEvent>();
  EndProfiling = Thunk<&EpProfiler::OnEndProfiling>();
}

// The offset is that of the call's beginning; to load CUPTI takes long.
Status EpProfiler::OnStartProfiling(int64_t offset_ns) {
  using Clock = std::chrono::steady_clock;
  const auto called = Clock::now();
  device::DeviceGuard guard(state_->ordinal());
  if (Status status = profiler_.Begin(); !status.ok()) {
    LogOnce(StrCat("GPU times are missing from the host's profile: ", status.message()));
    return Status::Ok();
  }
  const auto now = ReadTogether([] { return Clock::now(); }, [&] { return profiler_.Now(); });
  begin_ns_ = now.second;
  offset_ns_ = offset_ns + std::chrono::nanoseconds(now.first - called).count();
  return Status::Ok();
}

Status EpProfiler::OnStartEvent(uint64_t event) {
  profiler_.Enter(event);
  return Status::Ok();
}

Status EpProfiler::OnStopEvent(uint64_t event, const OrtProfilingEvent* description) {
  if (!profiler_.has_trace()) return Status::Ok();
  const char* name = "";
  OrtProfilingEventCategory category = OrtProfilingEventCategory_SESSION;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->ProfilingEvent_GetName(description, &name));
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->ProfilingEvent_GetCategory(description, &category));
  profile::NodeText node{.name = name};
  node.is_node = category == OrtProfilingEventCategory_NODE && node.name.ends_with(kNodeSuffix);
  if (node.is_node) {
    node.name.resize(node.name.size() - kNodeSuffix.size());
    node.op_type = ArgumentOf(description, "op_name");
    node.index = ArgumentOf(description, "node_index");
  }
  profiler_.Leave(event, node);
  return Status::Ok();
}

Status EpProfiler::OnEndProfiling(OrtProfilingEventsContainer* events) {
  if (!profiler_.has_trace()) return Status::Ok();
  device::DeviceGuard guard(state_->ordinal());
  profiler_.Close();
  // An error of the device is told to the Runs; what was done before it is shown.
  state_->Await().IgnoreError();
  const profile::ProfiledEvents found = profiler_.End();
  if (found.dropped != 0) {
    Log(LogLevel::kWarning, found.dropped, " events have no GPU times in the host's profile, which has room for ",
        profile::kMostEvents);
  }
  if (found.lost != 0) {
    Log(LogLevel::kWarning, "GPU times are incomplete: about ", found.lost,
        " records of the device's work are missing, ",
        "for which CUPTI had no room or which the end of another profile could not wait for");
  }
  if (!found.flushed.ok()) Log(LogLevel::kWarning, "GPU times may be incomplete: ", found.flushed.message());
  return Report(found, events);
}

Status EpProfiler::Report(const profile::ProfiledEvents& found, OrtProfilingEventsContainer* events) const {
  KernelNames names;
  const std::string simulated = profile::IsSimulated() ? "1" : "";
  std::vector<UniqueEvent> batch;
  std::vector<const OrtProfilingEvent*> handles;
  for (const profile::ProfiledActivity& one : found.activities) {
    const lib::Activity& activity = one.activity;
    const profile::NodeText& node = found.nodes[one.node];
    const int64_t begin_ns = offset_ns_ + static_cast<int64_t>(activity.begin_ns - begin_ns_);
    const int64_t end_ns = offset_ns_ + static_cast<int64_t>(activity.end_ns - begin_ns_);
    const bool is_kernel = activity.kind == lib::ActivityKind::kKernel;
    Arguments arguments;
    arguments.Add("op_name", Plain(node.op_type));
    arguments.Add(node.is_node ? "node_name" : "event_name",
                  node.name.empty() && !node.is_node ? "unfinished" : Plain(node.name));
    arguments.Add("node_index", Plain(node.index));
    arguments.Add("type", node.type);
    arguments.Add("call", StrCat(one.call));
    arguments.Add("activity", is_kernel ? "kernel" : names.Of(activity));
    arguments.Add("begin_ns", StrCat(begin_ns));
    arguments.Add("duration_ns", StrCat(end_ns - begin_ns));
    arguments.Add("device", StrCat(activity.ordinal));
    arguments.Add("stream", StrCat(activity.stream));
    if (!is_kernel) arguments.Add("bytes", StrCat(activity.bytes));
    arguments.Add("cost_bytes", TextOf(one.cost_bytes));
    arguments.Add("cost_flops", TextOf(one.cost_flops));
    arguments.Add("replayed", one.replayed ? "1" : "");
    arguments.Add("simulated", simulated);
    const int64_t begin_us = begin_ns / 1000;
    batch.emplace_back();
    CUDAEP_RETURN_IF_ERROR(arguments.Create(names.Of(activity).c_str(), -1 - activity.ordinal,
                                            static_cast<int>(activity.stream), begin_us, end_ns / 1000 - begin_us,
                                            &batch.back()));
    handles.push_back(batch.back().get());
    if (handles.size() == kBatch || &one == &found.activities.back()) {
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->ProfilingEventsContainer_AddEvents(events, handles.data(), handles.size()));
      batch.clear();
      handles.clear();
    }
  }
  return Status::Ok();
}

}  // namespace cudaep::abi
