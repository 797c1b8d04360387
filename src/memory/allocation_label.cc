#include "memory/allocation_label.h"

#include <mutex>
#include <string>
#include <unordered_set>

namespace cudaep::memory {
namespace {

thread_local const char* current = nullptr;

}  // namespace

const char* InternLabel(std::string_view text) {
  // Never destroyed: allocations that carry a label may outlive static destructors.
  static auto* mutex = new std::mutex;
  static auto* labels = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return labels->emplace(text).first->c_str();
}

const char* CurrentLabel() { return current; }

LabelScope::LabelScope(const char* label) : outer_(current) { current = label; }
LabelScope::~LabelScope() { current = outer_; }

}  // namespace cudaep::memory
