#include "ops/conv/channels_last.h"

#include "core/checked_math.h"
#include "kernels/movement/transpose.h"
#include "lib/problem_check.h"
#include "ops/conv/aligned_call.h"
#include "ops/conv/conv_library.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

constexpr int64_t kPack = 8;  // channels that one thread of a tensor-core kernel loads

bool Pays(DataType type, int64_t groups, int64_t in_channels, int64_t out_channels) {
  return SizeOf(type) == 2 && groups == 1 && in_channels % kPack == 0 && out_channels % kPack == 0;
}

// With tensors that are aligned as far as the library reads them where they lie.
Status EnqueueAligned(const ConvRunPlan& plan, const dnn::ConvPlan& library, StreamContext& stream,
                      const dnn::ConvPointers& at) {
  const ChannelsLast& turned = plan.channels_last;
  auto* const workspace = static_cast<std::byte*>(at.workspace);
  dnn::ConvPointers last{.bias = at.bias, .residual = at.residual, .workspace = workspace + turned.library_offset};
  CUDAEP_ASSIGN_OR_RETURN(last.x, PlaceTurned(turned.x, at.x, workspace, stream));
  CUDAEP_ASSIGN_OR_RETURN(last.w, PlaceTurned(turned.w, at.w, workspace, stream));
  last.y = turned.y.moves ? workspace + turned.y.offset : at.y;
  CUDAEP_RETURN_IF_ERROR(EnqueueConvPlan(stream, library, last));
  if (!library.remaining().empty()) {
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchFinish(*plan.finish, last.y, last.bias, last.residual, last.y, stream.stream()));
  }
  if (!turned.y.moves) return Status::Ok();
  return kernels::LaunchTranspose(turned.y.transpose, last.y, at.y, stream.stream());
}

}  // namespace

Result<TurnedTensor> TurnTensor(int64_t outer, int64_t rows, int64_t columns, size_t elem_bytes, size_t* next) {
  TurnedTensor turned;
  turned.moves = rows != 1 && columns != 1;
  if (!turned.moves) return turned;
  CUDAEP_ASSIGN_OR_RETURN(turned.transpose,
                          kernels::PlanTranspose(Shape{outer, rows, columns}, Shape{0, 2, 1}, elem_bytes));
  turned.offset = *next;
  *next += AlignUp(static_cast<size_t>(outer * rows * columns) * elem_bytes, kPartAlignment);
  return turned;
}

Result<const void*> PlaceTurned(const TurnedTensor& turned, const void* tensor, std::byte* workspace,
                                StreamContext& stream) {
  if (!turned.moves) return tensor;
  void* const copy = workspace + turned.offset;
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(turned.transpose, tensor, copy, stream.stream()));
  return copy;
}

bool PaysChannelsLast(const dnn::ConvProblem& p) {
  return p.layout == dnn::Layout::kChannelsFirst && p.direction == dnn::Direction::kForward && !p.epilogue.residual() &&
         Pays(p.types.a, p.groups, p.in_channels, p.out_channels);
}

ChannelsLastUse ChannelsLastUseOf(const Settings& settings, DataType type, int64_t groups, Dims w) {
  const ConvOptions options(settings);
  if (options.path != ConvPath::kAuto || !options.use_library || !dnn::Version().ok()) return ChannelsLastUse::kLoses;
  const int64_t in_channels = w[1] * groups, out_channels = w[0];
  if (Pays(type, groups, in_channels, out_channels)) return ChannelsLastUse::kGains;
  const bool depthwise = groups == in_channels && groups == out_channels && w.size() <= 4 &&
                         ElementCount(w.subspan(2)) <= kernels::kMostDepthwiseLastTaps;
  const bool grouped = groups > 1 && Pays(type, 1, in_channels, out_channels);
  return depthwise || grouped ? ChannelsLastUse::kTakes : ChannelsLastUse::kLoses;
}

size_t PackedConvWeights(const ConvOptions& options, dnn::Layout layout, int64_t groups, const TensorView& w) {
  if (w.rank <= 2 || w.elems() == 0 || !options.max_workspace) return 0;
  bool turns = options.path_may_be_library();
  if (layout == dnn::Layout::kChannelsLast) {
    turns = turns && w.type != DataType::kDouble;  // which the library takes in no layout
  } else if (options.path == ConvPath::kChannelsLast) {
    turns = groups == 1;
  } else {
    turns = turns && options.path == ConvPath::kAuto && Pays(w.type, groups, w.dim[1], w.dim[0]);
  }
  const bool moves = w.dim[1] != 1 && w.elems() != w.dim[0] * w.dim[1];
  return turns && moves && dnn::Version().ok() ? w.bytes() : 0;
}

Status PackConvWeights(const TensorView& w, void* packed, StreamContext& stream) {
  if (AvailableWorkspace(stream, false) != SIZE_MAX) {
    return NotSupported("under a memory limit there may be no room to turn packed weights back");
  }
  const Shape dims{w.dim[0], w.dim[1], w.elems() / (w.dim[0] * w.dim[1])};
  CUDAEP_ASSIGN_OR_RETURN(const auto plan, kernels::PlanTranspose(dims, Shape{0, 2, 1}, SizeOf(w.type)));
  return kernels::LaunchTranspose(plan, w.data, packed, stream.stream());
}

Status PlanChannelsLast(const ConvOptions& options, StreamContext& stream, ConvRunPlan* plan) {
  dnn::ConvProblem p = plan->problem;
  const bool forward = p.direction == dnn::Direction::kForward, turns = p.layout == dnn::Layout::kChannelsFirst;
  if (turns && (p.epilogue.residual() || !forward || p.groups != 1)) {
    return NotSupported(dnn::ProblemText(p), ": with a residual, transposed or in groups it is not run channels-last");
  }
  p.layout = dnn::Layout::kChannelsLast;
  if (p.spatial_rank == 1 && options.pad_to_nc1d) p = WithOuterDimension(p);
  const size_t size = SizeOf(p.types.a);
  const int64_t pixels = ProductOfUsed(p.out, p.spatial_rank), taps = ProductOfUsed(p.kernel, p.spatial_rank);
  ChannelsLast turned;
  size_t next = 0;
  if (turns) {
    CUDAEP_ASSIGN_OR_RETURN(turned.x,
                            TurnTensor(p.batch, p.in_channels, ProductOfUsed(p.in, p.spatial_rank), size, &next));
  }
  if (!plan->packed_weights) {
    const int64_t filters = forward ? p.out_channels : p.in_channels;
    const int64_t filter_channels = (forward ? p.in_channels : p.out_channels) / p.groups;
    CUDAEP_ASSIGN_OR_RETURN(turned.w, TurnTensor(filters, filter_channels, taps, size, &next));
  }
  if (turns) {
    CUDAEP_ASSIGN_OR_RETURN(turned.y, TurnTensor(p.batch, pixels, p.out_channels, size, &next));
  }
  turned.library_offset = next;
  const size_t limit =
      std::min(AvailableWorkspace(stream, p.deterministic), options.max_workspace ? SIZE_MAX : WorkspaceLimit(options));
  if (next > limit) return NotSupported(dnn::ProblemText(p), ": no room for channels-last copies of ", next, " bytes");
  CUDAEP_ASSIGN_OR_RETURN(auto library, FindConvPlan(options, p, stream));
  next += library->plan().workspace_bytes();
  if (next > limit) return NotSupported(dnn::ProblemText(p), ": no room for ", next, " bytes of channels-last work");
  if (const Epilogue& rest = library->plan().remaining(); !rest.empty()) {
    CUDAEP_ASSIGN_OR_RETURN(plan->finish,
                            kernels::PlanFinish(p.types.c, p.types.c, rest, p.batch * pixels, p.out_channels, 1));
  }
  plan->route = ConvRoute::kChannelsLast;
  TakeLibrary(plan, std::move(library));
  plan->channels_last = turned;
  plan->workspace_bytes = next;
  return Status::Ok();
}

Status EnqueueChannelsLast(const ConvRunPlan& plan, const dnn::ConvPlan& library, StreamContext& stream,
                           const dnn::ConvPointers& at) {
  const ChannelsLast& turned = plan.channels_last;
  const dnn::ConvProblem& p = plan.problem;
  const bool parts = library.takes_parts();  // those lie as they must
  const DirectTensors direct{.x = !turned.x.moves && !(parts && p.x_pitch != 0),
                             .w = !turned.w.moves,
                             .residual = p.epilogue.residual() && !(parts && p.residual_pitch != 0),
                             .y = !turned.y.moves && !(parts && p.y_pitch != 0)};
  return CallAligned(p, stream, at, direct,
                     [&](const dnn::ConvPointers& aligned) { return EnqueueAligned(plan, library, stream, aligned); });
}

Result<std::unique_ptr<ConvRunPlan>> PlanTurned(const ConvOptions& options, StreamContext& stream,
                                                std::unique_ptr<ConvRunPlan> plan) {
  dnn::ConvProblem p = WithoutParts(plan->problem);
  p.layout = dnn::Layout::kChannelsFirst;
  const size_t size = SizeOf(p.types.a);
  const int64_t pixels = ProductOfUsed(p.out, p.spatial_rank);
  if (p.epilogue.residual()) {  // which lies as y does: what comes after the sum waits until that is turned back
    Epilogue rest = p.epilogue;
    rest.bias = false;
    CUDAEP_ASSIGN_OR_RETURN(plan->finish,
                            kernels::PlanFinish(p.types.c, p.types.c, rest, p.batch * pixels, p.out_channels, 1));
    p.epilogue = {.bias = p.epilogue.bias};
  }
  ChannelsLast& turned = plan->channels_last;
  size_t next = 0;
  CUDAEP_ASSIGN_OR_RETURN(turned.x,
                          TurnTensor(p.batch, ProductOfUsed(p.in, p.spatial_rank), p.in_channels, size, &next));
  CUDAEP_ASSIGN_OR_RETURN(turned.y, TurnTensor(p.batch, p.out_channels, pixels, size, &next));
  CUDAEP_ASSIGN_OR_RETURN(plan->turned, PlanConvRun(options, p, stream, plan->packed_weights));
  plan->settled = plan->turned->settled;
  plan->route = ConvRoute::kTurned;
  turned.library_offset = next;
  plan->workspace_bytes = next + plan->turned->workspace_bytes;
  return plan;
}

Status EnqueueTurned(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at) {
  const ChannelsLast& turned = plan.channels_last;
  auto* const workspace = static_cast<std::byte*>(at.workspace);
  dnn::ConvPointers first{.w = at.w, .bias = at.bias, .workspace = workspace + turned.library_offset};
  CUDAEP_ASSIGN_OR_RETURN(first.x, PlaceTurned(turned.x, at.x, workspace, stream));
  first.y = turned.y.moves ? workspace + turned.y.offset : at.y;
  CUDAEP_RETURN_IF_ERROR(EnqueueConvRun(PlanAs<ConvRunPlan>(*plan.turned), stream, first));
  if (turned.y.moves) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(turned.y.transpose, first.y, at.y, stream.stream()));
  }
  if (!plan.finish) return Status::Ok();
  return kernels::LaunchFinish(*plan.finish, at.y, at.bias, at.residual, at.y, stream.stream());
}

}  // namespace cudaep::ops
