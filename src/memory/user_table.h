// Adds up live memory by the label it was allocated under.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"

namespace cudaep::memory {

class UserTable {
 public:
  void Add(const char* label, size_t bytes);
  // Largest first, at most `most` of them.
  std::vector<MemoryUser> Largest(size_t most) const;

 private:
  std::unordered_map<const char*, MemoryUser> users_;
};

}  // namespace cudaep::memory
