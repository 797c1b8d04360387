// What makes one plan of an operator differ from another: a list of words, built on the stack at each call.
//
// Up to kInlineWords words nothing is allocated.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "core/checked_math.h"
#include "ops/tensor_view.h"

namespace cudaep::ops {

class PlanKey {
 public:
  static constexpr size_t kInlineWords = 96;

  PlanKey() {}  // NOLINT(modernize-use-equals-default): words are not cleared
  PlanKey(const PlanKey&) = delete;
  PlanKey& operator=(const PlanKey&) = delete;

  void Add(int64_t word) { *Extend(1) = word; }
  // Rank and dimensions; something else for an absent input.
  void AddDims(const TensorView& input) {
    if (!input.present()) return Add(-1);
    int64_t* const words = Extend(1 + static_cast<size_t>(input.rank));
    words[0] = input.rank;
    for (int i = 0; i < input.rank; ++i) words[1 + i] = input.dim[i];
  }
  // The elements of an input in host memory. Its dimensions have to be in the key too.
  void AddValue(const TensorView& input) {
    const size_t bytes = input.present() ? input.bytes() : 0;
    if (bytes == 0) return;
    const size_t count = CeilDiv(bytes, sizeof(int64_t));
    int64_t* const words = Extend(count);
    words[count - 1] = 0;
    std::memcpy(words, input.data, bytes);
  }

  std::span<const int64_t> words() const { return {heap_.empty() ? inline_.data() : heap_.data(), size_}; }
  uint64_t Hash() const {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const int64_t word : words()) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return hash;
  }

 private:
  int64_t* Extend(size_t count) {
    const size_t at = size_;
    size_ += count;
    if (size_ <= kInlineWords) [[likely]]
      return &inline_[at];
    if (heap_.empty()) heap_.assign(inline_.begin(), inline_.begin() + static_cast<std::ptrdiff_t>(at));
    heap_.resize(size_);
    return &heap_[at];
  }

  std::array<int64_t, kInlineWords> inline_;
  std::vector<int64_t> heap_;  // all words, once they do not fit
  size_t size_ = 0;
};

}  // namespace cudaep::ops
