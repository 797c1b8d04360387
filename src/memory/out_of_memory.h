// The one text of an out-of-memory error, so that programs can match it and people can act on it.
//
//   [CUDAEP_OUT_OF_MEMORY] 1048576 bytes on CUDA device 0: CAUSE; 3145728 in use, 4194304 reserved of 5242880;
//   device: 512 MiB of 16 GiB free; budget: ...; largest users: Conv node 'a' 2 MiB in 3 chunks, ...
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "memory/allocator.h"
#include "memory/memory_source.h"

namespace cudaep::memory {

inline constexpr std::string_view kOutOfMemoryCode = "[CUDAEP_OUT_OF_MEMORY]";
inline constexpr size_t kUsersInError = 8;

// `cause`: what refused, as the driver or the budget put it. `users`: largest first.
Status OutOfMemoryError(size_t bytes, const MemorySource& source, std::string_view cause, const AllocatorStats& stats,
                        const std::vector<MemoryUser>& users);

}  // namespace cudaep::memory
