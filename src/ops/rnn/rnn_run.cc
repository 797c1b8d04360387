#include "ops/rnn/rnn_run.h"

#include <algorithm>

#include "device/device_info.h"
#include "kernels/rnn/fused_step.h"
#include "ops/rnn/rnn_pack.h"

namespace cudaep::ops {
namespace {

using kernels::RnnCell;

// `columns` gates' worth of the state's product with the recurrent weights, for all directions.
blas::GemmProblem StateProduct(const RnnProblem& problem, int64_t columns) {
  const int64_t batch = problem.shape.batch, hidden = problem.shape.hidden;
  blas::GemmProblem p;
  p.types = lib::MixedTypes::Of(problem.type);
  p.m = batch, p.n = columns * hidden, p.k = hidden;
  p.transpose_b = true;
  p.lda = p.ldb = hidden, p.ldc = p.n;
  p.batch[0] = {problem.shape.directions, batch * hidden, problem.gates() * hidden * hidden, batch * p.n};
  return p;
}

blas::GemmProblem InputProduct(const RnnProblem& problem) {
  blas::GemmProblem p;
  p.types = lib::MixedTypes::Of(problem.type);
  p.m = problem.shape.steps * problem.shape.batch;
  p.n = problem.shape.directions * problem.gates() * problem.shape.hidden;
  p.k = problem.input;
  p.transpose_b = true;
  p.lda = p.ldb = std::max<int64_t>(p.k, 1), p.ldc = p.n;
  return p;
}

Status EnqueueStep(const RnnRunPlan& plan, const kernels::RnnPointers& at, int64_t step, device::Stream stream) {
  const RnnProblem& problem = plan.problem;
  switch (problem.cell) {
    case RnnCell::kLstm:
      return kernels::LaunchLstmStep(problem.shape, problem.type, at, step, stream);
    case RnnCell::kGru:
      return kernels::LaunchGruStep(problem.shape, problem.type, at, step, stream);
    case RnnCell::kRnn:
      break;
  }
  return kernels::LaunchRnnStep(problem.shape, problem.type, at, step, stream);
}

// Beyond, a library's product reads the state less often than the tiles of a fused step do.
constexpr int64_t kMostFusedBatch = 64;
constexpr size_t kMostFusedBytes = size_t{16} << 20;  // that all tiles of a step read of the state

bool CanFuse(const RnnProblem& problem, const ProductOptions& options, const device::DeviceInfo& device) {
  if (device.major < 8 || !TakesPackedWeights(problem, options)) return false;
  const kernels::RnnShape& s = problem.shape;
  const size_t tile_bytes = kernels::FusedRowBytes(s, problem.type) / static_cast<size_t>(s.directions);
  return s.batch <= kMostFusedBatch &&
         static_cast<size_t>(problem.gates() * s.hidden * s.directions) / 16 * tile_bytes <= kMostFusedBytes;
}

// States that fused steps read: one that is read and one that is written, and what the first half of a step makes.
int FusedStates(const RnnProblem& problem) { return problem.resets_first() ? 3 : 2; }

Status EnqueueFused(const RnnRunPlan& plan, const OpContext& context, const RnnTensors& tensors,
                    kernels::RnnPointers at) {
  const RnnProblem& problem = plan.problem;
  const auto* const packed = static_cast<const std::byte*>(tensors.r);
  const auto rows = [&](int64_t state) {
    return context.scratch(plan.rows + static_cast<size_t>(state) * plan.row_bytes);
  };
  const auto launch = [&](size_t part, const void* from, void* to, int64_t step) {
    at.next_rows = to;
    return kernels::LaunchFusedStep(PartsOf(problem)[part], problem.shape, problem.type, at,
                                    {.weights = packed + PackedOffset(problem, part), .rows = from}, step,
                                    context.stream());
  };
  for (int64_t step = 0; step < problem.shape.steps; ++step) {
    void *const from = rows(step % 2), *const to = rows((step + 1) % 2);
    if (problem.resets_first()) {
      CUDAEP_RETURN_IF_ERROR(launch(0, from, rows(2), step));
      CUDAEP_RETURN_IF_ERROR(launch(1, rows(2), to, step));
    } else {
      CUDAEP_RETURN_IF_ERROR(launch(0, from, to, step));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<PlanPtr> PlanRnn(const RnnProblem& problem, const ProductOptions& options, bool packed,
                        const PlanContext& context) {
  StreamContext& stream = context.runtime;
  auto plan = std::make_unique<RnnRunPlan>();
  plan->problem = problem;
  const int64_t states = problem.shape.directions * problem.shape.batch * problem.shape.hidden;
  if (states == 0) return PlanPtr(std::move(plan));
  const auto bytes = [&](int64_t elems) { return static_cast<size_t>(elems) * SizeOf(problem.type); };
  plan->h = plan->AddScratch(bytes(states));
  const bool needs_c = problem.cell == RnnCell::kLstm || problem.resets_first();
  if (needs_c) plan->c = plan->AddScratch(static_cast<size_t>(states) * kernels::RnnCellBytes(problem.type));
  if (problem.shape.steps == 0) return PlanPtr(std::move(plan));

  int64_t products = 0;
  const int64_t rows = problem.shape.steps * problem.shape.batch;
  if (!CheckedMultiply(rows, problem.shape.directions * problem.gates() * problem.shape.hidden, &products)) {
    return InvalidArgument("the product with the input weights has too many elements");
  }
  CUDAEP_ASSIGN_OR_RETURN(plan->input, MatrixProduct::Make(stream, InputProduct(problem), options));
  plan->x_product = plan->AddScratch(bytes(products));
  plan->fused = packed && CanFuse(problem, options, context.device);
  if (plan->fused) {
    plan->row_bytes = kernels::FusedRowBytes(problem.shape, problem.type);
    plan->rows = plan->AddScratch(static_cast<size_t>(FusedStates(problem)) * plan->row_bytes);
    plan->library = plan->AddScratch(plan->input.workspace_bytes());
    return PlanPtr(std::move(plan));
  }
  const int64_t together = problem.resets_first() ? 2 : problem.gates();
  CUDAEP_ASSIGN_OR_RETURN(plan->recurrent, MatrixProduct::Make(stream, StateProduct(problem, together), options));
  size_t library_bytes = std::max(plan->input.workspace_bytes(), plan->recurrent.workspace_bytes());
  plan->h_product = plan->AddScratch(bytes(states * together));
  if (problem.resets_first()) {
    CUDAEP_ASSIGN_OR_RETURN(plan->reset, MatrixProduct::Make(stream, StateProduct(problem, 1), options));
    library_bytes = std::max(library_bytes, plan->reset.workspace_bytes());
    plan->reset_h = plan->AddScratch(bytes(states));
    plan->reset_product = plan->AddScratch(bytes(states));
  }
  plan->library = plan->AddScratch(library_bytes);
  return PlanPtr(std::move(plan));
}

Status EnqueueRnn(const RnnRunPlan& plan, const OpContext& context, const RnnTensors& tensors) {
  const RnnProblem& problem = plan.problem;
  if (problem.shape.batch * problem.shape.hidden == 0) return Status::Ok();
  kernels::RnnPointers at{.bias = tensors.bias,
                          .peephole = tensors.peephole,
                          .lengths = tensors.lengths,
                          .initial_h = tensors.initial_h,
                          .initial_c = tensors.initial_c,
                          .h = context.scratch(plan.h),
                          .y = tensors.y,
                          .y_h = tensors.y_h,
                          .y_c = tensors.y_c};
  if (problem.cell == RnnCell::kLstm || problem.resets_first()) at.c = context.scratch(plan.c);
  if (plan.fused) {
    at.next_rows = context.scratch(plan.rows);
    at.rows_are_tf32 = problem.type == DataType::kFloat;
    CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(
        at.next_rows, 0, static_cast<size_t>(FusedStates(problem)) * plan.row_bytes, context.stream()));
  }
  CUDAEP_RETURN_IF_ERROR(kernels::LaunchRnnStart(problem.shape, problem.type, at, context.stream()));
  if (problem.shape.steps == 0) return Status::Ok();

  void* const workspace = context.scratch(plan.library);
  void* const x_product = context.scratch(plan.x_product);
  at.x_product = x_product;
  CUDAEP_RETURN_IF_ERROR(
      plan.input.Enqueue(context.runtime, {.a = tensors.x, .b = tensors.w, .c = x_product, .workspace = workspace}));
  if (plan.fused) return EnqueueFused(plan, context, tensors, at);
  void* const h_product = context.scratch(plan.h_product);
  at.h_product = h_product;
  for (int64_t step = 0; step < problem.shape.steps; ++step) {
    CUDAEP_RETURN_IF_ERROR(
        plan.recurrent.Enqueue(context.runtime, {.a = at.h, .b = tensors.r, .c = h_product, .workspace = workspace}));
    if (problem.resets_first()) {
      at.reset_h = context.scratch(plan.reset_h);
      at.h_product = h_product;
      CUDAEP_RETURN_IF_ERROR(kernels::LaunchGruReset(problem.shape, problem.type, at, step, context.stream()));
      const size_t hidden = static_cast<size_t>(problem.shape.hidden);
      const std::byte* const weights =
          static_cast<const std::byte*>(tensors.r) + 2 * hidden * hidden * SizeOf(problem.type);
      CUDAEP_RETURN_IF_ERROR(plan.reset.Enqueue(
          context.runtime,
          {.a = at.reset_h, .b = weights, .c = context.scratch(plan.reset_product), .workspace = workspace}));
      at.h_product = context.scratch(plan.reset_product);
    }
    CUDAEP_RETURN_IF_ERROR(EnqueueStep(plan, at, step, context.stream()));
  }
  return Status::Ok();
}

}  // namespace cudaep::ops
