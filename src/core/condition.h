// Waits for condition variables.
//
// std::condition_variable::wait is a function of GLIBCXX_3.4.30 since GCC 12, newer than what the libraries may need
// (tools/checks/symbols.py); waits with a time are inline. A woken thread looks at its condition again either way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace cudaep {

inline void WaitOnce(std::condition_variable& condition, std::unique_lock<std::mutex>& lock) {
  condition.wait_for(lock, std::chrono::hours(1));
}

template <class Predicate>
void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, Predicate predicate) {
  while (!predicate()) WaitOnce(condition, lock);
}

}  // namespace cudaep
