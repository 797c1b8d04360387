// Adds up live memory by the label it was allocated under.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "memory/allocator.h"

namespace cudaep::memory {

class UserTable {
 public:
  void Add(const char* label, size_t bytes) {
    MemoryUser& user = users_[label];
    user.label = label;
    user.bytes += bytes;
    ++user.chunks;
  }
  // Largest first, at most `most` of them.
  std::vector<MemoryUser> Largest(size_t most) const {
    std::vector<MemoryUser> sorted;
    sorted.reserve(users_.size());
    for (const auto& [label, user] : users_) sorted.push_back(user);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    sorted.resize(std::min(most, sorted.size()));
    return sorted;
  }

 private:
  std::unordered_map<const char*, MemoryUser> users_;
};

}  // namespace cudaep::memory
