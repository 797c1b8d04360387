// Two clocks read at one time, though a thread may lose its processor between one and the other.
#pragma once

#include <utility>

namespace cudaep {

template <class First, class Second>
struct ClockPair {
  First first;
  Second second;
};

// Of a few readings the one that took `first` the least time: its middle, and what `second` was in it.
template <class ReadFirst, class ReadSecond>
auto ReadTogether(ReadFirst&& first, ReadSecond&& second) {
  constexpr int kReadings = 8;
  const auto read = [&] {
    const auto before = first();
    const auto other = second();
    const auto took = first() - before;
    return std::pair(ClockPair{before + took / 2, other}, took);
  };
  auto narrowest = read();
  for (int i = 1; i < kReadings; ++i) {
    if (const auto next = read(); next.second < narrowest.second) narrowest = next;
  }
  return narrowest.first;
}

}  // namespace cudaep
