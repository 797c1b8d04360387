#include "ops/conv/aligned_call.h"

#include "lib/problem_check.h"
#include "ops/call_tensors.h"

namespace cudaep::ops {

static_assert(dnn::kTensorAlignment == kernels::kPackBytes);

Status CallWithCopies(const dnn::ConvProblem& problem, StreamContext& stream, dnn::ConvPointers at,
                      const DirectTensors& direct, const std::function<Status(const dnn::ConvPointers&)>& call) {
  const dnn::ConvSizes sizes = dnn::SizesOf(problem);
  const auto bytes_of = [](int64_t elems, DataType type) { return elems * static_cast<int64_t>(SizeOf(type)); };
  const auto tensor = [](bool is_direct, const void* pointer, int64_t bytes, bool written = false) {
    return CallTensor{.at = is_direct ? pointer : nullptr, .bytes = bytes, .written = written};
  };
  const int64_t y_bytes = bytes_of(sizes.y, problem.types.c);
  CallTensor tensors[] = {tensor(direct.x, at.x, bytes_of(sizes.x, problem.types.a)),
                          tensor(direct.w, at.w, bytes_of(sizes.w, problem.types.b)),
                          tensor(direct.bias, at.bias, bytes_of(problem.out_channels, problem.types.c)),
                          tensor(direct.residual, at.residual, y_bytes), tensor(direct.y, at.y, y_bytes, true)};
  return CallWithCopies(stream, tensors, [&] {
    const auto& [x, w, bias, residual, y] = tensors;
    if (direct.x) at.x = x.at;
    if (direct.w) at.w = w.at;
    if (direct.bias) at.bias = bias.at;
    if (direct.residual) at.residual = residual.at;
    if (direct.y) at.y = const_cast<void*>(y.at);
    return call(at);
  });
}

}  // namespace cudaep::ops
