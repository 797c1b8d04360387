// Vector clocks: how far each stream's work is known to precede something.
//
// A slot belongs to one living stream at a time and is reused with its sequence continuing, so that clocks stay valid.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cudaep::device::sim {

class Clock {
 public:
  // Whether operation `sequence` of the stream in `slot` precedes.
  bool Covers(uint32_t slot, uint64_t sequence) const { return slot < reached_.size() && reached_[slot] >= sequence; }

  void Reach(uint32_t slot, uint64_t sequence) {
    if (slot >= reached_.size()) reached_.resize(slot + 1);
    reached_[slot] = std::max(reached_[slot], sequence);
  }
  void Join(const Clock& other) {
    if (other.reached_.size() > reached_.size()) reached_.resize(other.reached_.size());
    for (size_t i = 0; i < other.reached_.size(); ++i) reached_[i] = std::max(reached_[i], other.reached_[i]);
  }

 private:
  std::vector<uint64_t> reached_;
};

}  // namespace cudaep::device::sim
