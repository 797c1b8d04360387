#include "abi/statistics.h"

#include <map>
#include <string_view>
#include <vector>

#include "abi/session_state.h"
#include "core/strings.h"
#include "device/device.h"
#include "graph/report_text.h"
#include "memory/memory_registry.h"
#include "runtime/graph_tally.h"
#include "runtime/plan_store.h"

namespace cudaep::abi {
namespace {

using graph::Field;
using graph::Number;
using memory::AllocatorStats;
using memory::BudgetKind;

struct DeviceFigures {
  AllocatorStats arena, weights, workspaces, pinned;
  uint64_t limit_bytes = 0;
  bool is_limited = true;  // every part that has memory is
  uint64_t charged[memory::kBudgetKinds] = {};
  SessionState::Counts sessions;
  GraphTotals runs, calls;
};

// Of the fields that are shown.
void Add(const AllocatorStats& more, AllocatorStats* sum) {
  for (const auto field :
       {&AllocatorStats::bytes_in_use, &AllocatorStats::peak_bytes_in_use, &AllocatorStats::bytes_reserved,
        &AllocatorStats::peak_bytes_reserved, &AllocatorStats::allocations, &AllocatorStats::reserves,
        &AllocatorStats::driver_allocations, &AllocatorStats::driver_frees, &AllocatorStats::shrinks,
        &AllocatorStats::stream_waits, &AllocatorStats::failures}) {
    sum->*field += more.*field;
  }
}

void AddMemory(const memory::DeviceMemory& memory, DeviceFigures* device) {
  const memory::DeviceMemory::Statistics stats = memory.Stats();
  Add(stats.tensors, &device->arena);
  Add(stats.weights, &device->weights);
  Add(stats.workspaces, &device->workspaces);
  const memory::Budget& budget = memory.budget();
  uint64_t charged = 0;
  for (size_t kind = 0; kind < memory::kBudgetKinds; ++kind) {
    const uint64_t bytes = budget.charged_bytes(static_cast<BudgetKind>(kind));
    device->charged[kind] += bytes;
    charged += bytes;
  }
  device->limit_bytes += budget.limit_bytes();
  // The environment's configuration lives beside every session's, mostly without a limit and without memory.
  device->is_limited = device->is_limited && (budget.limit_bytes() != 0 || charged == 0);
}

std::map<int, DeviceFigures> Collect() {
  std::map<int, DeviceFigures> devices;
  const memory::LiveMemory live = memory::AllLiveMemory();
  for (const auto& memory : live.devices) AddMemory(*memory, &devices[memory->config().ordinal]);
  for (const auto& [ordinal, pinned] : live.pinned) Add(pinned->Stats(), &devices[ordinal].pinned);
  for (auto& [ordinal, counts] : SessionState::CountLive()) devices[ordinal].sessions = std::move(counts);
  for (const auto& [ordinal, totals] : GraphTally::Totals(GraphKind::kRuns)) devices[ordinal].runs = totals;
  for (const auto& [ordinal, totals] : GraphTally::Totals(GraphKind::kCalls)) devices[ordinal].calls = totals;
  return devices;
}

std::string Object(std::string_view key, const std::vector<std::string>& fields) {
  std::string text = StrCat(graph::Quoted(key), ": {");
  for (const std::string& field : fields) text += StrCat(text.back() == '{' ? "" : ", ", field);
  return text + "}";
}

std::string MemoryText(std::string_view kind, const AllocatorStats& stats) {
  return Object(
      kind, {Number("in_use_bytes", stats.bytes_in_use), Number("peak_in_use_bytes", stats.peak_bytes_in_use),
             Number("reserved_bytes", stats.bytes_reserved), Number("peak_reserved_bytes", stats.peak_bytes_reserved),
             Number("allocations", stats.allocations + stats.reserves), Number("extensions", stats.driver_allocations),
             Number("returns", stats.driver_frees), Number("shrinks", stats.shrinks),
             Number("stream_waits", stats.stream_waits), Number("failures", stats.failures)});
}

std::string GraphText(std::string_view kind, const GraphTotals& totals) {
  return Object(kind, {Number("graphs", totals.graphs), Number("memory_bytes", totals.bytes),
                       Number("captured", totals.captured), Number("launches", totals.launches)});
}

std::string DeviceText(int ordinal, const DeviceFigures& device) {
  const auto charged = [&](std::string_view key, BudgetKind kind) {
    return Number(key, device.charged[static_cast<size_t>(kind)]);
  };
  return StrCat(
      "{", Number("ordinal", int64_t{ordinal}), ", ", Number("sessions", int64_t{device.sessions.sessions}), ", ",
      Number("streams", uint64_t{device.sessions.streams.size()}), ", ",
      Number("compiled_regions", int64_t{device.sessions.regions}), ", ",
      Object("memory", {MemoryText("arena", device.arena), MemoryText("weights", device.weights),
                        MemoryText("workspaces", device.workspaces), MemoryText("pinned", device.pinned)}),
      ", ",
      Object("account",
             {Number("limit_bytes", device.is_limited ? device.limit_bytes : 0),
              charged("arena_bytes", BudgetKind::kArena), charged("weights_bytes", BudgetKind::kWeights),
              charged("workspaces_bytes", BudgetKind::kWorkspace), charged("libraries_bytes", BudgetKind::kLibraries),
              charged("graphs_bytes", BudgetKind::kGraphs)}),
      ", ", Object("graphs", {GraphText("runs", device.runs), GraphText("calls", device.calls)}), "}");
}

std::string PlansText() {
  const PlanStore::Statistics plans = PlanStore::Process().statistics();
  return Object("plans", {Number("kept", plans.plans), Number("built", plans.built), Number("loaded", plans.loaded),
                          Number("found", plans.found), Number("dropped", plans.dropped),
                          Number("build_us", plans.build_us), Number("load_us", plans.load_us),
                          Number("in_background", plans.in_background), Number("replacements", plans.replacements)});
}

}  // namespace

std::string StatisticsText() {
  const std::map<int, DeviceFigures> devices = Collect();
  return StrCat("{", Field("version", CUDAEP_VERSION), ", ", Field("backend", device::BackendName()), ", ",
                graph::Quoted("devices"), ": ",
                graph::Listed(devices, [](const auto& entry) { return DeviceText(entry.first, entry.second); }), ", ",
                PlansText(), "}");
}

}  // namespace cudaep::abi
