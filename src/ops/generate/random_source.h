// The random numbers of a node: a key from its seed, and a number for each of its calls.
#pragma once

#include <atomic>
#include <bit>
#include <random>

#include "kernels/generate/random.h"
#include "ops/op_info.h"

namespace cudaep::ops {

// Nodes with the same seed draw the same numbers, call by call; a node without one draws others in each session.
// Threads: each call gets a number of its own.
class RandomSource {
 public:
  // Attribute `seed`, a float or an integer.
  explicit RandomSource(const OpInfo& info) {
    if (const std::optional<float> number = info.Float("seed")) {
      key_ = std::bit_cast<uint32_t>(*number);
    } else if (const std::optional<int64_t> integer = info.Int("seed")) {
      key_ = static_cast<uint64_t>(*integer);
    } else {
      std::random_device entropy;
      key_ = static_cast<uint64_t>(entropy()) << 32 | entropy();
    }
  }

  kernels::RandomStream Next() const { return {key_, calls_.fetch_add(1, std::memory_order_relaxed)}; }

 private:
  uint64_t key_ = 0;
  mutable std::atomic<uint64_t> calls_ = 0;
};

}  // namespace cudaep::ops
