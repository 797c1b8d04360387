// Calls whose tensors have to be aligned, with tensors of any alignment: by way of copies in memory of the call alone
// (call_memory.h, which says how that fails).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/pack.h"
#include "ops/tensor_view.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// A tensor that has to lie where it can be moved in packs: where it lies, or in a copy.
struct CallTensor {
  const void* at;  // null: there is none
  int64_t bytes;
  bool written = false;
  const TensorView* turned = nullptr;  // weights [k, n] that nobody packed: the copy is [n, k]

  bool IsCopied() const { return turned != nullptr || !kernels::IsAligned(at, kernels::kPackBytes); }
};

// `call` finds in `tensors` where they lie; what it writes is copied back.
Status CallWithCopies(StreamContext& stream, std::span<CallTensor> tensors, const std::function<Status()>& call);

// The same, at no cost where nothing is to be copied.
template <class Call>
Status CallInPacks(StreamContext& stream, std::span<CallTensor> tensors, const Call& call) {
  if (std::ranges::none_of(tensors, &CallTensor::IsCopied)) [[likely]]
    return call();
  return CallWithCopies(stream, tensors, call);
}

}  // namespace cudaep::ops
