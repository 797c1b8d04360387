#include "ops/conv/aligned_call.h"

#include "lib/problem_check.h"
#include "ops/call_memory.h"

namespace cudaep::ops {

Status CallWithCopies(const dnn::ConvProblem& problem, StreamContext& stream, dnn::ConvPointers at,
                      const DirectTensors& direct, const std::function<Status(const dnn::ConvPointers&)>& call) {
  const auto is_aligned = [](const void* tensor) {
    return reinterpret_cast<uintptr_t>(tensor) % dnn::kTensorAlignment == 0;
  };
  struct Tensor {
    const void** pointer;
    bool direct;
    size_t bytes;
    size_t offset = 0;
    bool copied = false;
  };
  const dnn::ConvSizes sizes = dnn::SizesOf(problem);
  const auto bytes_of = [](int64_t elems, DataType type) { return static_cast<size_t>(elems) * SizeOf(type); };
  const size_t y_bytes = bytes_of(sizes.y, problem.types.c);
  void* const result = at.y;
  const void* y = at.y;
  Tensor tensors[] = {{&at.x, direct.x, bytes_of(sizes.x, problem.types.a)},
                      {&at.w, direct.w, bytes_of(sizes.w, problem.types.b)},
                      {&at.bias, direct.bias, bytes_of(problem.out_channels, problem.types.c)},
                      {&at.residual, direct.residual, y_bytes},
                      {&y, direct.y, y_bytes}};
  CallMemory memory(stream);
  for (Tensor& t : tensors) {
    t.copied = t.direct && !is_aligned(*t.pointer);  // an absent one is aligned
    if (t.copied) t.offset = memory.Add(t.bytes);
  }
  CUDAEP_RETURN_IF_ERROR(memory.Take());
  for (const Tensor& t : tensors) {
    if (!t.copied) continue;
    void* const copy = memory.at(t.offset);
    if (t.pointer != &y) CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(copy, *t.pointer, t.bytes, stream.stream()));
    *t.pointer = copy;
  }
  at.y = const_cast<void*>(y);
  CUDAEP_RETURN_IF_ERROR(call(at));
  return at.y == result ? Status::Ok() : device::MemcpyAsync(result, at.y, y_bytes, stream.stream());
}

}  // namespace cudaep::ops
