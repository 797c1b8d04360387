// Which host versions are spoken to, and since when each host feature exists.
//
// The library is compiled against one header version and asks an older host for what it has: the negotiated number is
// stamped into every struct, and callbacks newer than it stay null.
#pragma once

#include <cstdint>

namespace cudaep::abi {

inline constexpr uint32_t kMinimumApiVersion = 24;  // kernel registry, control-flow kernels, hardware devices

inline constexpr uint32_t kApiSync = 25;                // OrtEp::Sync
inline constexpr uint32_t kApiProfiler = 25;            // OrtEp::CreateProfiler
inline constexpr uint32_t kApiShrink = 25;              // OrtAllocator::Shrink
inline constexpr uint32_t kApiOpSchema = 25;            // OrtEpApi::GetOpSchema
inline constexpr uint32_t kApiStringsAttribute = 25;    // OrtApi::KernelInfoGetAttributeArray_string
inline constexpr uint32_t kApiBudgetWithoutStats = 25;  // a memory budget needs no stats file (abi/session_budget.h)
inline constexpr uint32_t kApiAvailableResource = 26;   // OrtEp::GetAvailableResource
inline constexpr uint32_t kApiInitializationEnd = 27;   // OrtEp::OnSessionInitializationEnd
inline constexpr uint32_t kApiInnerReads = 27;          // a node made of others gets what graphs inside them read
inline constexpr uint32_t kApiBudgets = 26;             // memory budgets are enforced (abi/session_budget.h)
inline constexpr uint32_t kApiGraphs = 26;              // OrtEp::IsGraphCaptureEnabled, IsGraphCaptured, ReplayGraph
inline constexpr uint32_t kApiGraphRelease = 27;        // OrtEp::ReleaseCapturedGraph
// Releases, above the compiled API: before the first a session's allocators must not outlive it
// (abi/kept_allocators.h), before the second memory budgets are enforced whatever a provider's name is
// (abi/session_budget.h).
inline constexpr uint32_t kAllocatorsOutliveSessions = 28, kBudgetsByName = 28;

// What is off on an older host, one row for each gate that the provider uses; logged once when the library is
// registered.
struct HostFeature {
  uint32_t since;
  const char* name;
  const char* without;  // what the user does not get
};
inline constexpr HostFeature kHostFeatures[] = {
    {kApiSync, "OrtEp::Sync", "an application cannot wait for the provider through the host"},
    {kApiProfiler, "OrtEp::CreateProfiler", "the host's profile has no GPU times"},
    {kApiShrink, "OrtAllocator::Shrink", "a Run that asks for it does not give unused memory back"},
    {kApiStringsAttribute, "OrtApi::KernelInfoGetAttributeArray_string",
     "operators with attributes that are lists of strings stay on the CPU"},
    {kApiBudgetWithoutStats, "memory budgets without a stats file", "the host refuses a budget that names none"},
    {kApiAvailableResource, "OrtEp::GetAvailableResource",
     "a memory budget that names no limit is kept by the provider alone"},
    {kApiInitializationEnd, "OrtEp::OnSessionInitializationEnd",
     "require_all_compute_nodes is not heard where a memory budget of the host's has no room for any node"},
    {kApiInnerReads, "inputs for what graphs inside fused nodes read",
     "a Loop over segments runs step by step where nobody else in its region reads what it reads"},
    {kApiGraphs, "OrtEp::ReplayGraph", "enable_cuda_graph is refused"},
    {kApiGraphRelease, "OrtEp::ReleaseCapturedGraph", "a captured CUDA graph lives as long as its session"},
    {kApiOpSchema, "OrtEpApi::GetOpSchema", "kernel definitions are not checked against the host's schemas"},
};

}  // namespace cudaep::abi
