#include "abi/forked.h"

#include <pthread.h>

#include <atomic>

namespace cudaep::abi {
namespace {

constinit std::atomic<bool> g_forked{false};

}  // namespace

Status DeviceIsUsed() {
  static const int failure = pthread_atfork(nullptr, nullptr, [] { g_forked.store(true, std::memory_order_relaxed); });
  if (failure != 0) return OutOfMemory("no host memory to watch for a fork");
  return CheckNotForked();
}

bool IsForked() { return g_forked.load(std::memory_order_relaxed); }

Status CheckNotForked() {
  if (!IsForked()) [[likely]]
    return Status::Ok();
  return FailedPrecondition(
      "[CUDAEP_FORKED] this process was forked after the library was registered, and a device is of no use in such a "
      "child: register the library in the child and not in its parent, or start the child by spawn (Python: "
      "multiprocessing.get_context(\"spawn\"))");
}

}  // namespace cudaep::abi
