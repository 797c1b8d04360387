#include "memory/budget.h"

#include <cstdint>

#include "core/format_bytes.h"
#include "core/strings.h"

namespace cudaep::memory {
namespace {

constexpr const char* kKindNames[kBudgetKinds] = {"arena", "weights", "workspace", "libraries", "graphs"};

}  // namespace

size_t Budget::available_bytes() const {
  if (limit_bytes_ == 0) return SIZE_MAX;
  const size_t charged = charged_bytes();
  return charged < limit_bytes_ ? limit_bytes_ - charged : 0;
}

bool Budget::TryCharge(BudgetKind kind, size_t bytes) {
  size_t charged = total_.load(std::memory_order_relaxed);
  do {
    if (limit_bytes_ != 0 && (charged > limit_bytes_ || bytes > limit_bytes_ - charged)) return false;
  } while (!total_.compare_exchange_weak(charged, charged + bytes, std::memory_order_relaxed));
  of(kind).fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void Budget::ChargeMeasured(BudgetKind kind, size_t bytes) {
  total_.fetch_add(bytes, std::memory_order_relaxed);
  of(kind).fetch_add(bytes, std::memory_order_relaxed);
}

void Budget::Release(BudgetKind kind, size_t bytes) {
  total_.fetch_sub(bytes, std::memory_order_relaxed);
  of(kind).fetch_sub(bytes, std::memory_order_relaxed);
}

void Budget::Move(BudgetKind from, BudgetKind to, size_t bytes) {
  of(to).fetch_add(bytes, std::memory_order_relaxed);
  of(from).fetch_sub(bytes, std::memory_order_relaxed);
}

std::string Budget::Describe() const {
  std::string text = limit_bytes_ == 0 ? std::string("no limit") : StrCat("limit ", FormatBytes(limit_bytes_));
  text += StrCat(", charged ", FormatBytes(charged_bytes()));
  const char* separator = ": ";
  for (size_t kind = 0; kind < kBudgetKinds; ++kind) {
    const size_t bytes = charged_bytes(static_cast<BudgetKind>(kind));
    if (bytes == 0) continue;
    text += StrCat(separator, kKindNames[kind], " ", FormatBytes(bytes));
    separator = ", ";
  }
  return text;
}

}  // namespace cudaep::memory
