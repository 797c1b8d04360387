// sim.h: configuration, counters and faults.
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "device/sim/block_executor.h"
#include "device/sim/sim.h"
#include "device/sim/simulator.h"

namespace cudaep::device::sim {
namespace {

std::string_view Environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

// The counter fields in order, for sums and differences.
constexpr uint64_t Counters::*kFields[] = {&Counters::launches,
                                           &Counters::host_work,
                                           &Counters::graph_launches,
                                           &Counters::host_to_device,
                                           &Counters::host_to_device_bytes,
                                           &Counters::device_to_host,
                                           &Counters::device_to_host_bytes,
                                           &Counters::device_to_device,
                                           &Counters::device_to_device_bytes,
                                           &Counters::pageable_copies,
                                           &Counters::memsets,
                                           &Counters::memset_bytes,
                                           &Counters::device_syncs,
                                           &Counters::stream_syncs,
                                           &Counters::event_syncs,
                                           &Counters::queries,
                                           &Counters::device_allocations,
                                           &Counters::device_frees,
                                           &Counters::async_allocations,
                                           &Counters::async_frees,
                                           &Counters::pool_growths,
                                           &Counters::pool_releases,
                                           &Counters::host_allocations,
                                           &Counters::host_frees,
                                           &Counters::host_callbacks,
                                           &Counters::event_records,
                                           &Counters::event_waits};
static_assert(sizeof(kFields) / sizeof(kFields[0]) * sizeof(uint64_t) == sizeof(Counters), "a counter is missing");

template <class F>
auto WithDevice(int ordinal, F&& get) -> decltype(get(std::declval<Device&>())) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= simulator.devices.size()) return {};
  return get(simulator.devices[static_cast<size_t>(ordinal)]);
}

}  // namespace

// What cannot be understood is left at its default: nobody could be told here.
Configuration Configuration::FromEnvironment() {
  Configuration result;
  const std::string_view mode = Environment("CUDAEP_SIM_MODE");
  if (mode == "eager") result.mode = Mode::kEager;
  if (mode.starts_with("random")) {
    result.mode = Mode::kRandom;
    if (mode.starts_with("random:")) result.seed = std::strtoull(mode.data() + 7, nullptr, 10);
  }
  if (const auto text = Environment("CUDAEP_SIM_DEVICES"); !text.empty()) {
    const long devices = std::strtol(text.data(), nullptr, 10);
    if (devices >= 0 && devices <= 64) result.devices = static_cast<int>(devices);
  }
  if (const auto text = Environment("CUDAEP_SIM_MEMORY_BYTES"); !text.empty()) {
    const unsigned long long bytes = std::strtoull(text.data(), nullptr, 10);
    if (bytes != 0) result.memory_bytes = bytes;
  }
  result.dependents_ahead = Environment("CUDAEP_SIM_DEPENDENTS_AHEAD") != "0";
  result.guard_pages = Environment("CUDAEP_SIM_GUARD_PAGES") == "1";
  if (const auto text = Environment("CUDAEP_SIM_WITHOUT_CODE"); !text.empty()) {
    result.device_without_code = static_cast<int>(std::strtol(text.data(), nullptr, 10));
  }
  if (const auto text = Environment("CUDAEP_SIM_LOSE_DEVICE_AT"); !text.empty()) {
    result.lose_at_kernel = std::strtoull(text.data(), nullptr, 10);
  }
  const std::string_view order = Environment("CUDAEP_SIM_THREAD_ORDER");
  if (order == "reversed") result.thread_order = ThreadOrder::kReversed;
  if (order == "random") result.thread_order = ThreadOrder::kRandom;
  return result;
}

Counters Counters::operator-(const Counters& earlier) const {
  Counters result = *this;
  for (auto field : kFields) result.*field -= earlier.*field;
  return result;
}

Status Configure(const Configuration& configuration) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  return simulator.Configure(lock, configuration);
}

Status Reset() { return Configure(Configuration::FromEnvironment()); }

Configuration CurrentConfiguration() {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  return simulator.config;
}

Counters Snapshot() {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  Counters total = simulator.host_counters;
  for (const Device& device : simulator.devices) {
    for (auto field : kFields) total.*field += device.counters.*field;
  }
  return total;
}

Counters SnapshotOf(int ordinal) {
  return WithDevice(ordinal, [](Device& device) { return device.counters; });
}

Counters SnapshotOf(Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  const StreamHandle* target = simulator.Lookup(stream);
  return target != nullptr ? target->counters : Counters();
}

void ResetCounters() {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.ResetCounters();
}

size_t BytesInUse(int ordinal) {
  return WithDevice(ordinal, [](Device& device) { return device.heap->used(); });
}
size_t PeakBytes(int ordinal) {
  return WithDevice(ordinal, [](Device& device) { return device.heap->peak(); });
}
size_t LiveAllocations(int ordinal) {
  return WithDevice(ordinal, [](Device& device) { return device.heap->live(); });
}

void FailCall(CallKind kind, uint64_t nth, Status status, uint64_t count) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.faults.FailCall(kind, nth, std::move(status), count);
}

void FailRandomly(CallKind kind, double probability, uint64_t seed, Status status) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.faults.FailRandomly(kind, probability, seed, std::move(status));
}

void OutOfMemoryAt(uint64_t nth) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.faults.OutOfMemoryAt(nth);
}

void ClearFaults() {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.faults.Clear();
}

void RaiseStickyError(int ordinal, std::string text) {
  WithDevice(ordinal, [&](Device& device) {
    device.pending_error = std::move(text);
    return true;
  });
}

void LoseDevice(int ordinal, std::string_view text) {
  WithDevice(ordinal, [&](Device& device) {
    Simulator::Get().MarkLost(device.ordinal, Status(StatusCode::kDeviceError, text));
    return true;
  });
}

void RestrictToStream(Stream stream) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.only_stream = stream != nullptr ? simulator.Lookup(stream) : nullptr;
}

void ObserveActivity(ActivityObserver observer) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  simulator.observer = observer;
}

uint64_t ActivityClock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

uint64_t ExchangeActivityScope(uint64_t scope) { return std::exchange(CurrentThread().activity_scope, scope); }

std::string NameOfKernel(const void* kernel) {
  return KernelName(reinterpret_cast<AnyKernel>(const_cast<void*>(kernel)));
}

Status CheckRedZones(int ordinal) {
  Simulator& simulator = Simulator::Get();
  Lock lock = simulator.Acquire();
  return simulator.CheckAllRedZones(ordinal);
}

}  // namespace cudaep::device::sim
