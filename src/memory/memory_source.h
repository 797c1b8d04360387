// Where an allocator takes its memory from: one device, or page-locked host memory; charged to a budget.
//
// Driver calls are made with the device current and with the thread's capture mode relaxed, so that another stream's
// capture is not invalidated by them.
#pragma once

#include <memory>

#include "core/status.h"
#include "device/device.h"
#include "memory/budget.h"

namespace cudaep::memory {

enum class MemoryKind : uint8_t { kDevice, kPinnedHost };

struct MemorySource {
  MemoryKind kind = MemoryKind::kDevice;
  int ordinal = 0;
  std::shared_ptr<Budget> budget = nullptr;  // null: nobody counts (pinned host memory)
  BudgetKind budget_kind = BudgetKind::kArena;

  // The budget's part of Acquire and Return, for memory that comes another way. kOutOfMemory when the budget has no
  // room.
  Status Charge(size_t bytes) const;
  void Release(size_t bytes) const;
  // kOutOfMemory when the budget or the device has no room; `*pointer` is null then.
  Status Acquire(void** pointer, size_t bytes) const;
  // `bytes` as taken. The driver waits for the device first.
  Status Return(void* pointer, size_t bytes) const;
};

}  // namespace cudaep::memory
