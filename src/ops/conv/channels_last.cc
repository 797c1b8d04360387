#include "ops/conv/channels_last.h"

#include "core/checked_math.h"
#include "kernels/movement/transpose.h"
#include "lib/problem_check.h"
#include "ops/conv/conv_library.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

constexpr size_t kAlignment = 256;
constexpr int64_t kPack = 8;  // channels that one thread of a tensor-core kernel loads

int64_t ElemsOf(const dnn::Spatial& sizes, int rank) {
  int64_t elems = 1;
  for (int d = 0; d < rank; ++d) elems *= sizes[static_cast<size_t>(d)];
  return elems;
}

// A tensor's copy with its two last dimensions exchanged, [outer, rows, columns].
Result<TurnedTensor> Turn(int64_t outer, int64_t rows, int64_t columns, size_t elem_bytes, size_t* next) {
  TurnedTensor turned;
  CUDAEP_ASSIGN_OR_RETURN(turned.transpose,
                          kernels::PlanTranspose(Shape{outer, rows, columns}, Shape{0, 2, 1}, elem_bytes));
  turned.moves = rows != 1 && columns != 1;
  turned.offset = *next;
  *next += AlignUp(static_cast<size_t>(outer * rows * columns) * elem_bytes, kAlignment);
  return turned;
}

bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % dnn::kTensorAlignment == 0; }

// `tensor` as the library wants it: itself, or its copy in the workspace.
Result<const void*> Place(const TurnedTensor& turned, const void* tensor, std::byte* workspace, StreamContext& stream) {
  if (!turned.moves && IsAligned(tensor)) return tensor;
  void* const copy = workspace + turned.offset;
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(turned.transpose, tensor, copy, stream.stream()));
  return copy;
}

bool Pays(DataType type, int64_t groups, int64_t in_channels, int64_t out_channels) {
  return SizeOf(type) == 2 && groups == 1 && in_channels % kPack == 0 && out_channels % kPack == 0;
}

}  // namespace

bool PaysChannelsLast(const dnn::ConvProblem& p) {
  return p.layout == dnn::Layout::kChannelsFirst && p.direction == dnn::Direction::kForward && !p.epilogue.residual() &&
         Pays(p.types.a, p.groups, p.in_channels, p.out_channels);
}

size_t PackedConvWeights(const ConvOptions& options, int64_t groups, const TensorView& w) {
  const bool turns = options.path == ConvPath::kChannelsLast
                         ? groups == 1
                         : options.path == ConvPath::kAuto && options.use_library && w.rank > 2 &&
                               Pays(w.type, groups, w.dim[1], w.dim[0]);
  const bool moves = w.rank > 2 && w.elems() != 0 && w.dim[1] != 1 && w.elems() != w.dim[0] * w.dim[1];
  return turns && moves ? w.bytes() : 0;
}

Status PackConvWeights(const TensorView& w, void* packed, device::Stream stream) {
  const Shape dims{w.dim[0], w.dim[1], w.elems() / (w.dim[0] * w.dim[1])};
  CUDAEP_ASSIGN_OR_RETURN(const auto plan, kernels::PlanTranspose(dims, Shape{0, 2, 1}, SizeOf(w.type)));
  return kernels::LaunchTranspose(plan, w.data, packed, stream);
}

Status PlanChannelsLast(const ConvOptions& options, StreamContext& stream, ConvRunPlan* plan) {
  dnn::ConvProblem p = plan->problem;
  if (p.epilogue.residual() || p.direction != dnn::Direction::kForward || p.groups != 1) {
    return NotSupported(dnn::ProblemText(p), ": with a residual, transposed or in groups it is not run channels-last");
  }
  p.layout = dnn::Layout::kChannelsLast;
  if (p.spatial_rank == 1 && options.pad_to_nc1d) p = WithOuterDimension(p);
  CUDAEP_ASSIGN_OR_RETURN(auto library, FindConvPlan(options, p, stream));
  const size_t size = SizeOf(p.types.a);
  const int64_t pixels = ElemsOf(p.out, p.spatial_rank);
  size_t next = AlignUp(library->plan().workspace_bytes(), kAlignment);
  ChannelsLast turned;
  CUDAEP_ASSIGN_OR_RETURN(turned.x, Turn(p.batch, p.in_channels, ElemsOf(p.in, p.spatial_rank), size, &next));
  const int64_t taps = ElemsOf(p.kernel, p.spatial_rank);
  CUDAEP_ASSIGN_OR_RETURN(turned.w, plan->packed_weights ? Turn(p.out_channels, 1, p.in_channels * taps, size, &next)
                                                         : Turn(p.out_channels, p.in_channels, taps, size, &next));
  CUDAEP_ASSIGN_OR_RETURN(turned.bias, Turn(1, 1, p.epilogue.bias ? p.out_channels : 0, size, &next));
  CUDAEP_ASSIGN_OR_RETURN(turned.y, Turn(p.batch, pixels, p.out_channels, size, &next));
  if (next > AvailableWorkspace(stream, p.deterministic)) {
    return NotSupported(dnn::ProblemText(p), ": no room for channels-last copies of ", next, " bytes");
  }
  if (const Epilogue& rest = library->plan().remaining(); !rest.empty()) {
    CUDAEP_ASSIGN_OR_RETURN(plan->finish,
                            kernels::PlanFinish(p.types.c, p.types.c, rest, p.batch * pixels, p.out_channels, 1));
  }
  plan->route = ConvRoute::kChannelsLast;
  plan->library = std::move(library);
  plan->channels_last = turned;
  plan->workspace_bytes = next;
  return Status::Ok();
}

Status EnqueueChannelsLast(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at) {
  const ChannelsLast& turned = plan.channels_last;
  auto* const workspace = static_cast<std::byte*>(at.workspace);
  dnn::ConvPointers last{.workspace = workspace};
  CUDAEP_ASSIGN_OR_RETURN(last.x, Place(turned.x, at.x, workspace, stream));
  CUDAEP_ASSIGN_OR_RETURN(last.w, Place(turned.w, at.w, workspace, stream));
  if (at.bias != nullptr) {
    CUDAEP_ASSIGN_OR_RETURN(last.bias, Place(turned.bias, at.bias, workspace, stream));
  }
  const bool direct = !turned.y.moves && IsAligned(at.y);
  last.y = direct ? at.y : workspace + turned.y.offset;
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
  CUDAEP_RETURN_IF_ERROR(dnn::Enqueue(*handle, plan.library->As<dnn::ConvPlan>(), last));
  if (plan.finish) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchFinish(*plan.finish, last.y, last.bias, nullptr, last.y, stream.stream()));
  }
  return direct ? Status::Ok() : kernels::LaunchTranspose(turned.y.transpose, last.y, at.y, stream.stream());
}

}  // namespace cudaep::ops
