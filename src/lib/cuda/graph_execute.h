// Runs execution plans.
//
// A variant pack, the library's list of a call's addresses, cannot be changed once it is final (cuDNN 9.19 answers
// BAD_PARAM) and costs some microseconds and heap to make. A Run that finds its tensors where the last one had them
// needs no new one: each handle keeps the packs of its last calls.
//
// A pack serves the plan that it was first used with, and no other: cuDNN 9.19 leaves the factors of a convolution in
// it as that plan has them. A plan of doubles that finds floats there reads a beta whose upper half nobody wrote, and a
// plan of floats finds the lower half of 1.0, which is 0: the result is zeros.
// Threads: one thread per handle at a time; a plan may be shared.
#pragma once

#include <array>
#include <span>

#include "lib/cuda/graph_engines.h"

namespace cudaep::dnn {

inline constexpr size_t kMostBound = 8;  // addresses of one call

class PackCache {
 public:
  static constexpr size_t kSlots = 256;

  struct Key {
    uint64_t plan = 0;  // EnginePlan::number
    size_t count = 0;
    std::array<int64_t, kMostBound> ids{};
    std::array<const void*, kMostBound> addresses{};
    const void* workspace = nullptr;
    bool operator==(const Key&) const = default;
  };

  // The pack of this plan and these addresses, made when the last one of its slot was another.
  Result<cudnnBackendDescriptor_t> Find(const CudnnApi& api, const Key& key);

 private:
  struct Slot {
    Key key;
    Descriptor pack;
  };
  std::array<Slot, kSlots> slots_;
};

// Queues the plan, which is the key's, on the handle's stream.
Status Execute(const CudnnApi& api, cudnnHandle_t handle, PackCache& packs, const EnginePlan& plan,
               const PackCache::Key& key);

}  // namespace cudaep::dnn
