#include "ops/conv/conv_run.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "kernels/movement/transpose.h"
#include "lib/problem_check.h"
#include "ops/conv/aligned_call.h"
#include "ops/conv/channels_last.h"
#include "ops/conv/conv_library.h"
#include "ops/conv/conv_parts.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

// What remains of the epilogue, over y.
Status PlanRest(const Epilogue& remaining, ConvRunPlan* plan) {
  if (remaining.empty()) return Status::Ok();
  const dnn::ConvProblem& p = plan->problem;
  const int64_t pixels = OutputOf(p).elems() / (p.batch * p.out_channels);
  const bool last = p.layout == dnn::Layout::kChannelsLast;
  CUDAEP_ASSIGN_OR_RETURN(plan->finish,
                          kernels::PlanFinish(p.types.c, p.types.c, remaining, last ? p.batch * pixels : p.batch,
                                              p.out_channels, last ? 1 : pixels));
  return Status::Ok();
}

Status PlanColumns(StreamContext& stream, const ProductOptions& options, bool may_be_direct, ConvRunPlan* plan) {
  const dnn::ConvProblem& p = plan->problem;
  if (p.layout != dnn::Layout::kChannelsFirst) {
    return NotSupported(dnn::ProblemText(p), ": columns are made of channels-first tensors only");
  }
  plan->route = ConvRoute::kColumns;
  const size_t limit = AvailableWorkspace(stream, p.deterministic);
  plan->columns = PlaceColumns(p, limit == SIZE_MAX ? limit : limit / 2, may_be_direct,
                               plan->packed_weights);  // half is for the product
  ColumnConv& columns = plan->columns;
  Epilogue rest = p.epilogue;
  if (p.epilogue.bias) {
    rest.bias = false;
    columns.product.epilogue.beta = 1.0f;
    plan->starts_from_bias = true;
    const Shape y{p.batch, p.out_channels, columns.pixels};
    CUDAEP_ASSIGN_OR_RETURN(plan->spread_bias, kernels::MakeStridedCopy(y, Shape{0, 1, 0}, 0, SizeOf(p.types.c)));
  }
  CUDAEP_RETURN_IF_ERROR(PlanRest(rest, plan));
  const size_t size = SizeOf(p.types.a);
  if (columns.packed_elems != 0 && !plan->packed_weights) {  // [groups, in, out, taps] to [groups, out, in, taps]
    const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
    const Shape dims{p.groups, group_in, group_out, columns.packed_elems / (p.in_channels * group_out)};
    CUDAEP_ASSIGN_OR_RETURN(plan->pack_weights, kernels::PlanTranspose(dims, Shape{0, 2, 1, 3}, size));
  }
  if (plan->packed_weights) {
    const int64_t group_in = p.in_channels / p.groups;
    const Shape dims{p.out_channels, columns.packed_elems / (p.out_channels * group_in), group_in};
    CUDAEP_ASSIGN_OR_RETURN(plan->pack_weights, kernels::PlanTranspose(dims, Shape{0, 2, 1}, size));
  }
  plan->columns_offset = AlignUp(static_cast<size_t>(columns.packed_elems) * size, kPartAlignment);
  plan->product_offset =
      plan->columns_offset + AlignUp(static_cast<size_t>(columns.column_elems) * size, kPartAlignment);
  const size_t rest_bytes = limit - std::min(limit, plan->product_offset);
  CUDAEP_ASSIGN_OR_RETURN(plan->full_chunk, MatrixProduct::Make(stream, columns.product, options, rest_bytes));
  size_t product_bytes = plan->full_chunk.workspace_bytes();
  if (const int64_t last = columns.pixels % columns.chunk; last != 0) {
    CUDAEP_ASSIGN_OR_RETURN(plan->last_chunk,
                            MatrixProduct::Make(stream, columns.ProductOf(last), options, rest_bytes));
    product_bytes = std::max(product_bytes, plan->last_chunk.workspace_bytes());
  }
  plan->workspace_bytes = plan->product_offset + product_bytes;
  return Status::Ok();
}

// The columns of a plain convolution.
struct ImageColumns final : ColumnSource {
  const ConvRunPlan& plan;
  const void* x;
  device::Stream stream;
  ImageColumns(const ConvRunPlan& of, const void* input, device::Stream on) : plan(of), x(input), stream(on) {}

  Status Make(int64_t image, int64_t first, int64_t pixels, void* columns) const override {
    const size_t size = SizeOf(plan.problem.types.a);
    const auto* const from =
        static_cast<const std::byte*>(x) + image * plan.columns.x_stride * static_cast<int64_t>(size);
    return kernels::LaunchIm2col(plan.columns.columns, size, from, columns, first, pixels, stream);
  }
};

Status EnqueueColumns(const ConvRunPlan& plan, StreamContext& stream, const ColumnSource& source,
                      const dnn::ConvPointers& at) {
  const ColumnConv& columns = plan.columns;
  const int64_t size = static_cast<int64_t>(SizeOf(plan.problem.types.a));
  const auto* weights = static_cast<const std::byte*>(at.w);
  auto* const workspace = static_cast<std::byte*>(at.workspace);
  if (columns.packed_elems != 0) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(plan.pack_weights, weights, workspace, stream.stream()));
    weights = workspace;
  }
  if (plan.starts_from_bias) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchStridedCopy(plan.spread_bias, at.bias, at.y, stream.stream()));
  }
  for (int64_t image = 0; image < columns.images; ++image) {
    auto* const y = static_cast<std::byte*>(at.y) + image * columns.y_stride * size;
    for (int64_t first = 0; first < columns.pixels; first += columns.chunk) {
      const int64_t pixels = std::min(columns.chunk, columns.pixels - first);
      const void* matrix = workspace + plan.columns_offset;
      if (columns.direct) {
        matrix = static_cast<const std::byte*>(at.x) + image * columns.x_stride * size;
      } else {
        CUDAEP_RETURN_IF_ERROR(source.Make(image, first, pixels, workspace + plan.columns_offset));
      }
      const MatrixProduct& product = pixels == columns.chunk ? plan.full_chunk : plan.last_chunk;
      std::byte* const result = y + first * size;
      CUDAEP_RETURN_IF_ERROR(product.Enqueue(
          stream,
          {.a = weights, .b = matrix, .c = result, .residual = result, .workspace = workspace + plan.product_offset}));
    }
  }
  return Status::Ok();
}

// Why a problem cannot run by the route that conv_path names.
Status Impossible(const char* route, const dnn::ConvProblem& problem, std::string_view why) {
  return NotSupported("conv_path=", route, " is impossible for ", dnn::ProblemText(problem), ": ", why);
}

// What the library cannot do runs by another route; anything else (no memory, say) may pass.
bool MayRunElsewhere(const Status& status) {
  return status.code() == StatusCode::kNotSupported || status.code() == StatusCode::kLibraryMissing;
}

Result<std::unique_ptr<ConvRunPlan>> PlanRoute(const ConvOptions& options, dnn::ConvProblem problem,
                                               StreamContext& stream, bool packed_weights) {
  auto plan = std::make_unique<ConvRunPlan>();
  problem.allow_tf32 = options.product.allow_tf32;
  problem.deterministic = options.product.deterministic;
  plan->problem = problem;
  plan->packed_weights = packed_weights;
  if (OutputOf(problem).elems() == 0) return plan;
  plan->cost_flops = ConvFlops(problem);
  const bool last = problem.layout == dnn::Layout::kChannelsLast;
  const bool is_depthwise = IsDepthwise(problem);
  if (options.path == ConvPath::kDepthwise && !is_depthwise) {
    return Impossible("depthwise", problem, "it is no depthwise convolution that the kernel takes");
  }
  if (is_depthwise && (options.path == ConvPath::kAuto || options.path == ConvPath::kDepthwise)) {
    plan->route = ConvRoute::kDepthwise;
    plan->depthwise = DepthwiseOf(problem);
    plan->depthwise.constant_weights = options.product.constant_a;
    Epilogue rest = problem.epilogue;
    rest.bias = false;
    if (!rest.residual()) {
      plan->depthwise.activation = rest.activation;
      plan->depthwise.parameters = rest.parameters;
      rest = {};
    }
    CUDAEP_RETURN_IF_ERROR(PlanRest(rest, plan.get()));
    return plan;
  }
  if (auto product = options.path == ConvPath::kAuto ? PointwiseOf(problem) : std::nullopt) {
    product->constant_b = options.product.constant_a;
    product->constant_bias = options.product.constant_bias;
    if (const auto tiles = kernels::PlanPointwise(*product, stream.device_info())) {
      plan->route = ConvRoute::kPointwise;
      plan->pointwise = *product;
      plan->pointwise_tiles = *tiles;
      return plan;
    }
  }
  const bool has_input = problem.in_channels > 0 && PlaceColumns(problem).x_stride > 0;
  if (options.path_may_be_library() && has_input) {
    const bool turn = options.path == ConvPath::kChannelsLast;
    Status refusal;
    if (last || turn || (options.path == ConvPath::kAuto && PaysChannelsLast(problem))) {
      refusal = PlanChannelsLast(options, stream, plan.get());
      if (refusal.ok()) return plan;
      if (!MayRunElsewhere(refusal)) return refusal;
      if (turn) return Impossible("channels_last", problem, refusal.message());
      if (last) return PlanTurned(options, stream, std::move(plan));
    }
    const bool widen = problem.spatial_rank == 1 && options.pad_to_nc1d;
    auto library = packed_weights ? Result<PlanSlotPtr>(NotSupported("its weights are packed: ", refusal.message()))
                                  : FindConvPlan(options, widen ? WithOuterDimension(problem) : problem, stream);
    if (library.ok()) {
      plan->route = ConvRoute::kLibrary;
      TakeLibrary(plan.get(), std::move(library).value());
      plan->workspace_bytes = plan->library->plan().workspace_bytes();
      CUDAEP_RETURN_IF_ERROR(PlanRest(plan->library->plan().remaining(), plan.get()));
      return plan;
    }
    if (!MayRunElsewhere(library.status())) return std::move(library).status();
    if (options.path == ConvPath::kLibrary) return Impossible("library", problem, library.status().message());
    Log(LogLevel::kInfo, dnn::ProblemText(problem), " runs by columns: ", library.status().message());
  }
  if (options.path == ConvPath::kLibrary || options.path == ConvPath::kChannelsLast) {
    return Impossible(options.path == ConvPath::kLibrary ? "library" : "channels_last", problem, "it has no input");
  }
  if (last) return PlanTurned(options, stream, std::move(plan));
  CUDAEP_RETURN_IF_ERROR(PlanColumns(stream, options.product, true, plan.get()).WithContext(dnn::ProblemText(problem)));
  return plan;
}

// `library`: of the plan's routes through one.
Status EnqueueRoute(const ConvRunPlan& plan, const dnn::ConvPlan* library, StreamContext& stream,
                    const dnn::ConvPointers& at) {
  switch (plan.route) {
    case ConvRoute::kNothing:
      return Status::Ok();
    case ConvRoute::kDepthwise: {
      const bool last = plan.problem.layout == dnn::Layout::kChannelsLast;
      auto* const launch = last ? &kernels::LaunchDepthwiseConvLast : &kernels::LaunchDepthwiseConv;
      const void* const bias = plan.problem.epilogue.bias ? at.bias : nullptr;
      CUDAEP_RETURN_IF_ERROR(launch(plan.depthwise, at.x, at.w, bias, at.y, stream.stream()));
      break;
    }
    case ConvRoute::kPointwise:
      return CallAligned(plan.problem, stream, at, {}, [&](const dnn::ConvPointers& aligned) {
        kernels::ManyRowsProduct product = plan.pointwise;
        product.constant_b &= aligned.w == at.w;  // a copy is made by earlier work
        product.constant_bias &= aligned.bias == at.bias;
        return kernels::LaunchManyRows(
            product, plan.pointwise_tiles,
            {.a = aligned.x, .b = aligned.w, .c = aligned.y, .bias = aligned.bias, .residual = aligned.residual},
            stream.stream());
      });
    case ConvRoute::kTurned:
      return EnqueueTurned(plan, stream, at);
    case ConvRoute::kChannelsLast:
      return EnqueueChannelsLast(plan, *library, stream, at);
    case ConvRoute::kLibrary:
      CUDAEP_RETURN_IF_ERROR(EnqueueConvLibrary(plan.problem, *library, stream, at));
      if (library->remaining().empty()) return Status::Ok();
      break;
    case ConvRoute::kColumns:
      CUDAEP_RETURN_IF_ERROR(EnqueueColumns(plan, stream, ImageColumns(plan, at.x, stream.stream()), at));
      break;
  }
  if (!plan.finish) return Status::Ok();
  return kernels::LaunchFinish(*plan.finish, at.y, at.bias, at.residual, at.y, stream.stream());
}

}  // namespace

Result<PlanPtr> PlanConvRun(const ConvOptions& options, dnn::ConvProblem problem, StreamContext& stream,
                            bool packed_weights) {
  CUDAEP_ASSIGN_OR_RETURN(auto plan, PlanRoute(options, problem, stream, packed_weights));
  // Nothing else takes the place of a plan that takes parts.
  const bool copies = plan->library == nullptr || !plan->library->As<dnn::ConvPlan>().takes_parts();
  if (problem.has_parts() && copies) PlaceParts(plan.get());
  return PlanPtr(std::move(plan));
}

Result<PlanPtr> PlanConvColumns(const ProductOptions& options, dnn::ConvProblem problem, StreamContext& stream) {
  auto plan = std::make_unique<ConvRunPlan>();
  problem.allow_tf32 = options.allow_tf32;
  problem.deterministic = options.deterministic;
  plan->problem = problem;
  if (OutputOf(problem).elems() == 0) return PlanPtr(std::move(plan));
  CUDAEP_RETURN_IF_ERROR(PlanColumns(stream, options, false, plan.get()).WithContext(dnn::ProblemText(problem)));
  return PlanPtr(std::move(plan));
}

Status EnqueueConvColumns(const ConvRunPlan& plan, StreamContext& stream, const ColumnSource& source,
                          const dnn::ConvPointers& at) {
  CUDAEP_RETURN_IF_ERROR(EnqueueColumns(plan, stream, source, at));
  if (!plan.finish) return Status::Ok();
  return kernels::LaunchFinish(*plan.finish, at.y, at.bias, at.residual, at.y, stream.stream());
}

Status EnqueueConvRun(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at) {
  // Read once: another plan may take its place meanwhile.
  const auto* const library = plan.library == nullptr ? nullptr : &plan.library->As<dnn::ConvPlan>();
  const auto enqueue = [&](const dnn::ConvPointers& tensors) { return EnqueueRoute(plan, library, stream, tensors); };
  if (!plan.problem.has_parts() || (library != nullptr && library->takes_parts())) return enqueue(at);
  return CallOnCopies(plan, stream, at, enqueue);
}

}  // namespace cudaep::ops
