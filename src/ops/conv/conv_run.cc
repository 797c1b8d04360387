#include "ops/conv/conv_run.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/log.h"
#include "kernels/elementwise/binary.h"
#include "kernels/movement/transpose.h"
#include "lib/problem_check.h"

namespace cudaep::ops {
namespace {

constexpr size_t kSmallWorkspaceBytes = size_t{32} << 20;  // of cudnn_conv_use_max_workspace = 0
constexpr size_t kMostWorkspaceBytes = size_t{1} << 30;
constexpr size_t kAlignment = 256;

// What the stream may still take, unless the same bits are wanted each time: the choice of an algorithm must not depend
// on the moment then.
size_t AvailableWorkspace(const dnn::ConvProblem& problem, StreamContext& stream) {
  return problem.deterministic ? SIZE_MAX : stream.workspace().PlanLimit();
}

// Timing needs a second set of tensors, and a workspace of the limit at worst.
bool TimingFits(const dnn::ConvProblem& problem, size_t workspace_bytes, const memory::Budget& budget) {
  if (budget.limit_bytes() == 0) return true;
  const dnn::ConvSizes sizes = dnn::SizesOf(problem);
  const size_t tensors = static_cast<size_t>(sizes.x + sizes.w + sizes.y + problem.out_channels) * SizeOf(problem.type);
  return tensors + workspace_bytes <= budget.available_bytes();
}

Result<std::unique_ptr<const dnn::ConvPlan>> AskLibrary(const ConvOptions& options, const dnn::ConvProblem& problem,
                                                        StreamContext& stream) {
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, stream.dnn());
  const size_t limit =
      std::min(options.max_workspace ? kMostWorkspaceBytes : kSmallWorkspaceBytes, AvailableWorkspace(problem, stream));
  // What is fastest differs from one measurement to the next.
  const bool time = options.search == ConvSearch::kExhaustive && !problem.deterministic &&
                    TimingFits(problem, limit, stream.budget());
  const dnn::Choice choice = time ? dnn::Choice::kFastest : dnn::Choice::kFirst;
  if (options.search == ConvSearch::kDefault) {
    auto plan = dnn::MakePlan(*handle, problem, choice, 0);
    if (plan.ok()) return plan;
  }
  auto plan = dnn::MakePlan(*handle, problem, choice, limit);
  if (plan.ok() || !time || plan.status().code() != StatusCode::kOutOfMemory) return plan;
  return dnn::MakePlan(*handle, problem, dnn::Choice::kFirst, limit);  // no room for timing
}

// `bias` [M] added to every pixel of y [N, M, pixels].
Status PlanBias(ConvRunPlan* plan) {
  const dnn::ConvProblem& p = plan->problem;
  const int64_t pixels = OutputOf(p).elems() / (p.batch * p.out_channels);
  const Shape y{p.batch, p.out_channels, pixels}, bias{p.out_channels, 1};
  plan->adds_bias = true;
  CUDAEP_ASSIGN_OR_RETURN(plan->bias, kernels::MakeBroadcast<2>(y, {y.dims(), bias.dims()}));
  return Status::Ok();
}

Status PlanColumns(StreamContext& stream, ConvRunPlan* plan) {
  const dnn::ConvProblem& p = plan->problem;
  plan->path = ConvPath::kColumns;
  const size_t limit = AvailableWorkspace(p, stream);
  plan->columns = PlaceColumns(p, limit == SIZE_MAX ? limit : limit / 2);  // the rest is for the product
  ColumnConv& columns = plan->columns;
  if (p.bias) {
    columns.product.beta = 1.0f;
    plan->starts_from_bias = true;
    const Shape y{p.batch, p.out_channels, columns.pixels};
    CUDAEP_ASSIGN_OR_RETURN(plan->spread_bias, kernels::MakeStridedCopy(y, Shape{0, 1, 0}, 0, SizeOf(p.type)));
  }
  const size_t size = SizeOf(p.type);
  if (columns.packed_elems != 0) {  // [groups, in, out, taps] to [groups, out, in, taps]
    const int64_t group_in = p.in_channels / p.groups, group_out = p.out_channels / p.groups;
    const Shape dims{p.groups, group_in, group_out, columns.packed_elems / (p.in_channels * group_out)};
    CUDAEP_ASSIGN_OR_RETURN(plan->pack_weights, kernels::PlanTranspose(dims, Shape{0, 2, 1, 3}, size));
  }
  plan->columns_offset = AlignUp(static_cast<size_t>(columns.packed_elems) * size, kAlignment);
  plan->product_offset = plan->columns_offset + AlignUp(static_cast<size_t>(columns.column_elems) * size, kAlignment);
  const size_t rest_bytes = limit - std::min(limit, plan->product_offset);
  CUDAEP_ASSIGN_OR_RETURN(plan->full_chunk, MatrixProduct::Make(stream, columns.product, rest_bytes));
  size_t product_bytes = plan->full_chunk.workspace_bytes();
  if (const int64_t rest = columns.pixels % columns.chunk; rest != 0) {
    CUDAEP_ASSIGN_OR_RETURN(plan->last_chunk, MatrixProduct::Make(stream, columns.ProductOf(rest), rest_bytes));
    product_bytes = std::max(product_bytes, plan->last_chunk.workspace_bytes());
  }
  plan->workspace_bytes = plan->product_offset + product_bytes;
  return Status::Ok();
}

Status EnqueueColumns(const ConvRunPlan& plan, const OpContext& context) {
  const ColumnConv& columns = plan.columns;
  const int64_t size = static_cast<int64_t>(SizeOf(plan.problem.type));
  const auto* weights = context.input<std::byte>(1);
  auto* const workspace = static_cast<std::byte*>(context.workspace);
  if (columns.packed_elems != 0) {
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchTranspose(plan.pack_weights, weights, workspace, context.stream()));
    weights = workspace;
  }
  if (plan.starts_from_bias) {
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchStridedCopy(plan.spread_bias, context.input(2), context.output(0), context.stream()));
  }
  for (int64_t image = 0; image < columns.images; ++image) {
    const auto* const x = context.input<std::byte>(0) + image * columns.x_stride * size;
    auto* const y = context.output<std::byte>(0) + image * columns.y_stride * size;
    for (int64_t first = 0; first < columns.pixels; first += columns.chunk) {
      const int64_t pixels = std::min(columns.chunk, columns.pixels - first);
      const std::byte* matrix = x;
      if (!columns.direct) {
        matrix = workspace + plan.columns_offset;
        CUDAEP_RETURN_IF_ERROR(kernels::LaunchIm2col(columns.columns, static_cast<size_t>(size), x,
                                                     workspace + plan.columns_offset, first, pixels, context.stream()));
      }
      const MatrixProduct& product = pixels == columns.chunk ? plan.full_chunk : plan.last_chunk;
      CUDAEP_RETURN_IF_ERROR(product.Enqueue(
          context.runtime,
          {.a = weights, .b = matrix, .c = y + first * size, .workspace = workspace + plan.product_offset}));
    }
  }
  return Status::Ok();
}

Status EnqueueLibrary(const ConvRunPlan& plan, const OpContext& context) {
  CUDAEP_ASSIGN_OR_RETURN(dnn::Handle* const handle, context.runtime.dnn());
  return dnn::Enqueue(*handle, *plan.library,
                      {.x = context.input(0),
                       .w = context.input(1),
                       .bias = plan.problem.bias && !plan.adds_bias ? context.input(2) : nullptr,
                       .y = context.output(0),
                       .workspace = context.workspace});
}

}  // namespace

Result<PlanPtr> PlanConvRun(const ConvOptions& options, dnn::ConvProblem problem, StreamContext& stream) {
  auto plan = std::make_unique<ConvRunPlan>();
  problem.allow_tf32 = options.use_tf32;
  problem.deterministic = options.deterministic;
  plan->problem = problem;
  if (OutputOf(problem).elems() == 0) return PlanPtr(std::move(plan));
  if (IsDepthwise(problem)) {
    plan->path = ConvPath::kDepthwise;
    plan->depthwise = DepthwiseOf(problem);
    return PlanPtr(std::move(plan));
  }
  const bool has_input = problem.in_channels > 0 && PlaceColumns(problem).x_stride > 0;
  if (options.use_library && has_input) {
    const bool widen = problem.spatial_rank == 1 && options.pad_to_nc1d;
    auto library = AskLibrary(options, widen ? WithOuterDimension(problem) : problem, stream);
    if (library.ok()) {
      plan->path = ConvPath::kLibrary;
      plan->library = std::move(library).value();
      plan->workspace_bytes = plan->library->workspace_bytes();
      if (problem.bias && plan->library->needs_separate_bias()) CUDAEP_RETURN_IF_ERROR(PlanBias(plan.get()));
      return PlanPtr(std::move(plan));
    }
    if (library.status().code() == StatusCode::kDeviceLost) return std::move(library).status();
    Log(LogLevel::kInfo, dnn::ProblemText(problem), " runs by columns: ", library.status().message());
  }
  CUDAEP_RETURN_IF_ERROR(PlanColumns(stream, plan.get()).WithContext(dnn::ProblemText(problem)));
  return PlanPtr(std::move(plan));
}

Status EnqueueConvRun(const ConvRunPlan& plan, const OpContext& context) {
  switch (plan.path) {
    case ConvPath::kNothing:
      return Status::Ok();
    case ConvPath::kDepthwise:
      return kernels::LaunchDepthwiseConv(plan.depthwise, context.input(0), context.input(1),
                                          plan.problem.bias ? context.input(2) : nullptr, context.output(0),
                                          context.stream());
    case ConvPath::kLibrary:
      CUDAEP_RETURN_IF_ERROR(EnqueueLibrary(plan, context));
      break;
    case ConvPath::kColumns:
      CUDAEP_RETURN_IF_ERROR(EnqueueColumns(plan, context));
      break;
  }
  if (!plan.adds_bias) return Status::Ok();
  const kernels::BinaryKernel add = kernels::FindBinaryKernel("Add", plan.problem.type);
  return add({.a = context.output(0), .b = context.input(2), .y = context.output(0), .broadcast = &plan.bias},
             context.stream());
}

}  // namespace cudaep::ops
