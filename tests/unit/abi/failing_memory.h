// Host memory that ends: the executable's operator new, which the libraries that it loads use too.
//
// Threads: each has its own count.
#pragma once

#include <climits>

namespace cudaep::test {

// While it lives, the `nth` allocation of this thread (0 is the next) and those after it, `count` in all, throw
// std::bad_alloc.
class FailingMemory {
 public:
  explicit FailingMemory(int nth, int count = INT_MAX);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
};

// A scope inside that of a FailingMemory whose allocations work and are not counted.
class UnlimitedMemory {
 public:
  UnlimitedMemory();
  ~UnlimitedMemory();
  UnlimitedMemory(const UnlimitedMemory&) = delete;
  UnlimitedMemory& operator=(const UnlimitedMemory&) = delete;

 private:
  const int left_;
};

}  // namespace cudaep::test
