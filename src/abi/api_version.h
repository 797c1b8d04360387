// Which host versions are spoken to, and since when each host feature exists.
//
// The library is compiled against one header version and asks an older host for what it has: the negotiated number is
// stamped into every struct, and callbacks newer than it stay null.
#pragma once

#include <cstdint>

namespace cudaep::abi {

inline constexpr uint32_t kMinimumApiVersion = 24;  // kernel registry, control-flow kernels, hardware devices

inline constexpr uint32_t kApiSync = 25;          // OrtEp::Sync
inline constexpr uint32_t kApiShrink = 25;        // OrtAllocator::Shrink
inline constexpr uint32_t kApiOpSchema = 25;      // OrtEpApi::GetOpSchema
inline constexpr uint32_t kApiMemoryDevice = 27;  // OrtEp::GetDefaultMemoryDevice

}  // namespace cudaep::abi
