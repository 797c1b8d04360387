#include "memory/user_table.h"

#include <algorithm>

namespace cudaep::memory {

void UserTable::Add(const char* label, size_t bytes) {
  MemoryUser& user = users_[label];
  user.label = label;
  user.bytes += bytes;
  ++user.chunks;
}

std::vector<MemoryUser> UserTable::Largest(size_t most) const {
  std::vector<MemoryUser> sorted;
  sorted.reserve(users_.size());
  for (const auto& [label, user] : users_) sorted.push_back(user);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (sorted.size() > most) sorted.resize(most);
  return sorted;
}

}  // namespace cudaep::memory
