// Everything that decides how the memory of one device is taken; sessions with equal configurations share it.
//
// The options table (runtime/options_table.h) is the writer; the registry (memory/memory_registry.h) compares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "memory/arena_config.h"

namespace cudaep::memory {

// Addresses of the caller's C functions; memory/blocks/external_allocator.h has their types.
struct ExternalAddresses {
  void* alloc = nullptr;
  void* free = nullptr;
  void* empty_cache = nullptr;
  void* caller_stream = nullptr;  // the stream that the caller's allocator orders its blocks by

  bool operator==(const ExternalAddresses&) const = default;
};

struct MemoryConfig {
  int ordinal = 0;
  size_t limit_bytes = 0;  // of everything that is charged to the budget; 0: none
  ArenaConfig arena;
  ExternalAddresses external;        // `alloc` null: the provider's own memory
  uint64_t fail_allocation = 0;      // the request of this number, counted from 1, fails once; 0: none
  bool require_stream_tags = false;  // a request that names no stream is an error
  std::string record_path;           // where requests for tensors are written; empty: nowhere

  bool operator==(const MemoryConfig&) const = default;

  bool is_external() const { return external.alloc != nullptr; }
  // Callbacks belong to the session that gave them, and so do the aids for debugging.
  bool shareable() const {
    return !is_external() && fail_allocation == 0 && !require_stream_tags && record_path.empty();
  }
};

}  // namespace cudaep::memory
