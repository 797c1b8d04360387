// Where threads are, asleep or not: one after the other is interrupted by a signal, about a thousand times a second
// together, and its call stack is kept.
//
// One sampler a process. Names come from the libraries' dynamic symbols; code without one is named by its library and
// offset, for addr2line.
#pragma once

#include <string>
#include <thread>
#include <vector>

namespace cudaep::run_rate {

class Sampler {
 public:
  Sampler();

  // Samples for so long and forgets what was there before. The threads must live until it returns.
  void Sample(std::vector<std::thread>& threads, double seconds);

  struct Place {
    std::string where;   // the innermost function
    std::string caller;  // the innermost function outside of libc, which waits or works there; may be the same
    double share = 0;    // of all samples
  };
  // The most frequent places, and the share of each library by its caller.
  std::vector<Place> Places(size_t most) const;
  std::vector<std::pair<std::string, double>> Libraries() const;
};

}  // namespace cudaep::run_rate
