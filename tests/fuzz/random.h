// The fuzzer's only source of chance: the same seed draws the same case on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace cudaep::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {  // SplitMix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 to `count` - 1; 0 for an empty range.
  size_t Below(size_t count) { return count == 0 ? 0 : static_cast<size_t>(Next() % count); }
  bool OneIn(size_t count) { return Below(count) == 0; }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<size_t>(high - low) + 1));
  }
  template <class T>
  const T& Pick(const std::vector<T>& list) {
    return list[Below(list.size())];
  }
  template <class T>
  T Pick(std::initializer_list<T> list) {
    return *(list.begin() + Below(list.size()));
  }

  // Small numbers most of the time, else those at which types and formulas end.
  int64_t Integer();
  float Real();
  // Letters, digits, control characters, broken UTF-8, up to a megabyte now and then.
  std::string Text();

 private:
  uint64_t state_;
};

}  // namespace cudaep::fuzz
