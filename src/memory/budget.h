// One account for all device memory the provider takes on one GPU under one configuration.
//
// Everything that takes memory from the driver charges here first: weights, arena, scratch blocks, and what vendor
// libraries take (measured when they are first used). Without a limit it only counts.
// Threads: lock-free; all functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"

namespace cudaep::memory {

enum class BudgetKind : uint8_t { kArena, kWeights, kWorkspace, kLibraries, kGraphs };
inline constexpr size_t kBudgetKinds = 5;

class Budget {
 public:
  // `limit_bytes` 0: none.
  explicit Budget(size_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  size_t limit_bytes() const { return limit_bytes_; }
  size_t charged_bytes() const { return total_.load(std::memory_order_relaxed); }
  size_t charged_bytes(BudgetKind kind) const { return of(kind).load(std::memory_order_relaxed); }
  // What may still be charged; SIZE_MAX without a limit.
  size_t available_bytes() const;

  // Whether `bytes` fit; charged if so.
  bool TryCharge(BudgetKind kind, size_t bytes);
  // Charges what was already taken and cannot be given back (a library's load), over the limit if it must be.
  void ChargeMeasured(BudgetKind kind, size_t bytes);
  void Release(BudgetKind kind, size_t bytes);
  // What was charged as one kind counts as another from now on.
  void Move(BudgetKind from, BudgetKind to, size_t bytes);

  // "limit 1 GiB, charged 900 MiB: arena 600 MiB, weights 300 MiB".
  std::string Describe() const;

 private:
  std::atomic<size_t>& of(BudgetKind kind) { return by_kind_[static_cast<size_t>(kind)]; }
  const std::atomic<size_t>& of(BudgetKind kind) const { return by_kind_[static_cast<size_t>(kind)]; }

  const size_t limit_bytes_;
  std::atomic<size_t> total_{0};
  std::array<std::atomic<size_t>, kBudgetKinds> by_kind_{};
};

}  // namespace cudaep::memory
