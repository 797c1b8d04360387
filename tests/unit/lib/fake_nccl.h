// What libnccl.so.2 of fake_nccl.cc is told, and what it was asked.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "lib/cuda/nccl_api.h"

struct FakeNccl {
  static constexpr int kForEver = -1;

  std::atomic<int> polls{0};                           // of ncclCommGetAsyncError that find a call in progress
  std::atomic<int> error{0};                           // what ncclCommGetAsyncError finds otherwise
  const char* refuses = "";                            // the call that fails at once
  std::function<void(cudaep::device::Stream)> queued;  // by an operation, on its stream

  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::vector<std::string> calls;  // but those that ask; guarded by mutex
};

// Starts anew.
extern "C" __attribute__((visibility("default"))) FakeNccl* fakeNccl();
