#include "ops/norm/normalization.h"

#include <algorithm>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/common/row_plan.h"
#include "kernels/pack.h"
#include "ops/norm/layer_norm.h"

namespace cudaep::ops {
namespace {

using Part = NormalizationPlan::Part;

// The first of the dimensions that are reduced, if all behind it are; -1 if not. Dimensions of 1 are either.
int FirstReduced(const NormView& view) {
  int first = view.dims.rank();
  bool kept = false;
  for (int d = view.dims.rank() - 1; d >= 0; --d) {
    if (view.dims[d] == 1) continue;
    if (!view.reduced[static_cast<size_t>(d)]) {
      kept = true;
    } else if (kept) {
      return -1;
    } else {
      first = d;
    }
  }
  return first;
}

// Elements from one index of dimension `axis` to the next of a tensor of shape `dims`, 0 where it is repeated.
int64_t StrideOf(Dims dims, size_t axis) { return dims[axis] == 1 ? 0 : ElementCount(dims.subspan(axis + 1)); }

// Rows from here on are better shared by the whole device than by a cluster or two.
constexpr int64_t kLongRowElems = int64_t{1} << 17;

// With one block or cluster each they would leave the device idle, or more of them be in flight than the L2 cache holds
// until they are read again.
bool RowsAreTooLong(const NormalizationPlan& plan, size_t element_bytes, const device::DeviceInfo& device) {
  const kernels::NormPlan& packed = plan.kernel.packed;
  if (plan.elems > kernels::kMostRowElems) return true;
  const bool streamed = packed.kind == kernels::NormPlan::Kind::kStream;
  const bool idle = streamed ? plan.rows < device.multiprocessors
                             : plan.elems > kLongRowElems && plan.rows * packed.cluster * 2 < device.multiprocessors;
  if (idle || packed.read_once) return idle;
  const int64_t in_flight =
      streamed ? std::min<int64_t>(plan.rows, 2 * int64_t{device.multiprocessors}) : packed.blocks / packed.cluster;
  return static_cast<size_t>(in_flight * plan.elems) * element_bytes > device.l2_bytes;
}

// The input as rows of segments, if reduced and kept dimensions take turns so; those of 1 are either.
std::optional<kernels::SegmentedRows> SegmentsOf(Dims dims, std::span<const bool> reduced) {
  kernels::SegmentedRows rows;
  int64_t* const turns[] = {&rows.length, &rows.inner, &rows.segments, &rows.outer};
  int turn = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    if (reduced[d] != (turn % 2 == 0)) ++turn;
    if (turn == 4) return std::nullopt;
    *turns[turn] *= dims[d];
  }
  return rows;
}

}  // namespace

NormView ViewGroups(Dims x, int64_t groups, bool channels_last, bool group_affine) {
  const int64_t in_group = groups == 0 ? 1 : (channels_last ? x.back() : x[1]) / groups;
  NormView view;
  if (channels_last) {
    view.dims = {x[0], ElementCount(x.subspan(1, x.size() - 2)), groups, in_group};
    view.affine = {1, 1, groups, in_group};
  } else {
    view.dims = {x[0], groups, in_group, ElementCount(x.subspan(2))};
    view.affine = {1, groups, group_affine ? 1 : in_group, 1};
  }
  view.reduced = DimFlags(4, true);
  view.reduced[0] = view.reduced[channels_last ? 2 : 1] = false;
  return view;
}

kernels::ReduceOp Normalization::Op() const {
  if (spec_.l1) return kernels::ReduceOp::kL1Scale;
  return spec_.statistic == kernels::RowStatistic::kL2 ? kernels::ReduceOp::kL2Scale
                                                       : kernels::ReduceOp::kVarianceScale;
}

Result<PlanPtr> Normalization::MakePlan(const NormView& view, const PlanContext& context) const {
  auto plan = std::make_unique<NormalizationPlan>();
  const Dims dims = view.dims;
  if (ElementCount(dims) == 0) return PlanPtr(std::move(plan));
  const bool affine = spec_.affine_type != DataType::kUndefined;
  const int axis = FirstReduced(view);
  if (axis >= 0 && !spec_.l1 && !spec_.swish && (!affine || spec_.affine_type == spec_.type)) {
    const auto at = static_cast<size_t>(axis);
    plan->rows = ElementCount(dims.subspan(0, at));
    plan->elems = ElementCount(dims.subspan(at));
    bool whole_packs = true;
    if (affine) {
      CUDAEP_ASSIGN_OR_RETURN(plan->map, MapAffine(dims, axis, view.affine, "scale"));
      whole_packs =
          plan->map.columns == plan->elems || plan->map.column_repeat % kernels::RowPack(SizeOf(spec_.type)) == 0;
    }
    CUDAEP_ASSIGN_OR_RETURN(plan->kernel, kernels::PlanLayerNorm({.x_type = spec_.type,
                                                                  .y_type = spec_.type,
                                                                  .rows = plan->rows,
                                                                  .elems = plan->elems,
                                                                  .whole_rows = whole_packs},
                                                                 context.device));
    plan->by_rows = !RowsAreTooLong(*plan, SizeOf(spec_.type), context.device);
  }
  if (!plan->by_rows) {
    CUDAEP_RETURN_IF_ERROR(PlanSegments(view, context, *plan));
    CUDAEP_RETURN_IF_ERROR(PlanParts(view, context, *plan));
  }
  return PlanPtr(std::move(plan));
}

// Leaves plan.segments empty where rows are none of segments, or scale and bias not one of each for a segment.
Status Normalization::PlanSegments(const NormView& view, const PlanContext& context, NormalizationPlan& plan) const {
  if (spec_.l1 || spec_.swish) return Status::Ok();
  const Dims dims = view.dims;
  std::optional<kernels::SegmentedRows> rows;
  if (spec_.affine_type == DataType::kUndefined) {
    rows = SegmentsOf(dims, view.reduced);
  } else {
    // As ViewGroups makes it, channels first.
    const bool by_channels = spec_.affine_type == spec_.type && dims.size() == 4 && !view.reduced[1] &&
                             view.reduced[2] && view.reduced[3] && view.affine[0] == 1 && view.affine[3] == 1;
    if (!by_channels) return Status::Ok();
    plan.affine_rows = view.affine[1];
    plan.affine_segments = view.affine[2] > 1;
    const int64_t segments = plan.affine_segments ? dims[2] : 1;
    rows = {.outer = dims[0] * dims[1], .segments = segments, .inner = 1, .length = dims[2] / segments * dims[3]};
  }
  if (!rows) return Status::Ok();
  plan.segments = kernels::PlanSegmentNorm(spec_.type, *rows, context.device);
  if (!plan.segments) return Status::Ok();
  plan.segment_rows = *rows;
  return plan.segments->needs_tickets() ? context.runtime.tickets().Get().status() : Status::Ok();
}

Status Normalization::EnqueueSegments(const NormalizationPlan& plan, const OpContext& context, const void* scale,
                                      const void* bias) const {
  unsigned* tickets = nullptr;
  if (plan.segments->needs_tickets()) {
    CUDAEP_ASSIGN_OR_RETURN(tickets, context.runtime.tickets().Get());
  }
  return kernels::LaunchSegmentNorm({.type = spec_.type,
                                     .x = context.input(0),
                                     .y = context.output(0),
                                     .scale = scale,
                                     .bias = bias,
                                     .affine_rows = plan.affine_rows,
                                     .affine_segments = plan.affine_segments,
                                     .epsilon = spec_.epsilon,
                                     .statistic = spec_.statistic,
                                     .rows = plan.segment_rows,
                                     .tickets = tickets,
                                     .plan = &*plan.segments},
                                    context.stream());
}

// Cuts the first dimension whose slices fit half of the L2 cache, so that the other half takes what is written. It and
// those before it must not be reduced.
Status Normalization::PlanParts(const NormView& view, const PlanContext& context, NormalizationPlan& plan) const {
  const Dims dims = view.dims;
  const Shape affine = spec_.affine_type == DataType::kUndefined ? Shape(view.dims.rank(), 1) : view.affine;
  const std::span<const bool> reduced = view.reduced;
  const auto element = static_cast<int64_t>(SizeOf(spec_.type));
  const int64_t most_elems = std::max<int64_t>(static_cast<int64_t>(context.device.l2_bytes) / 2 / element, 1);
  size_t axis = 0;
  if (ElementCount(dims) > most_elems) {
    while (axis < dims.size() && !reduced[axis] && ElementCount(dims.subspan(axis + 1)) > most_elems) ++axis;
  }
  const bool cut = axis < dims.size() && !reduced[axis];
  if (!cut) axis = 0;
  const size_t behind = dims.empty() ? 0 : axis + 1;
  plan.slice_elems = ElementCount(dims.subspan(behind));
  plan.size = dims.empty() ? 1 : dims[axis];
  plan.chunk = plan.size;
  if (cut) {
    const int64_t parts = CeilDiv(plan.size, std::clamp<int64_t>(most_elems / plan.slice_elems, 1, plan.size));
    plan.chunk = CeilDiv(plan.size, parts);
    plan.slice_affine = StrideOf(affine, axis);
  }
  plan.outer_dims.Assign(dims.subspan(0, axis));
  plan.outer_affine.Resize(static_cast<int>(axis));
  for (size_t d = 0; d < axis; ++d) plan.outer_affine[static_cast<int>(d)] = StrideOf(affine, d);
  plan.outer = ElementCount(plan.outer_dims);

  Shape part_dims(dims.subspan(axis)), part_affine(affine.dims().subspan(axis));
  const auto plan_slices = [&](int64_t slices) -> Result<Part> {
    if (cut) {
      part_dims[0] = slices;
      part_affine[0] = part_affine[0] == 1 ? 1 : slices;
    }
    return PlanPart(part_dims, reduced.subspan(axis), part_affine, context);
  };
  CUDAEP_ASSIGN_OR_RETURN(plan.part, plan_slices(plan.chunk));
  const int64_t rest = plan.size % plan.chunk;
  if (rest != 0) {
    CUDAEP_ASSIGN_OR_RETURN(plan.last, plan_slices(rest));
  }

  const size_t scale_bytes = 2 * (spec_.type == DataType::kDouble ? sizeof(double) : sizeof(float));
  plan.statistics = plan.AddScratch(static_cast<size_t>(plan.part.reduction->packed.outputs) * scale_bytes);
  plan.partials = plan.AddScratch(
      std::max(plan.part.reduction->workspace_bytes, rest == 0 ? size_t{0} : plan.last.reduction->workspace_bytes));
  return Status::Ok();
}

Result<Part> Normalization::PlanPart(Dims dims, std::span<const bool> reduced, Dims affine,
                                     const PlanContext& context) const {
  Part part;
  Shape statistics(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (reduced[d]) statistics[static_cast<int>(d)] = 1;
  }
  CUDAEP_ASSIGN_OR_RETURN(part.reduction, PlanReductionOf(Op(), dims, reduced, spec_.type, context));
  CUDAEP_ASSIGN_OR_RETURN(part.broadcast, kernels::MakeBroadcast<2>(dims, {statistics.dims(), affine}));
  return part;
}

Status Normalization::Enqueue(const Plan& base, const OpContext& context, const void* scale, const void* bias) const {
  const auto& plan = PlanAs<NormalizationPlan>(base);
  if (context.inputs[0].elems() == 0) return Status::Ok();
  if (plan.by_rows) {
    return kernels::LaunchLayerNorm({.x_type = spec_.type,
                                     .y_type = spec_.type,
                                     .x = context.input(0),
                                     .scale = scale,
                                     .beta = bias,
                                     .y = context.output(0),
                                     .rows = plan.rows,
                                     .elems = plan.elems,
                                     .scale_map = plan.map,
                                     .beta_map = plan.map,
                                     .epsilon = spec_.epsilon,
                                     .statistic = spec_.statistic,
                                     .plans = &plan.kernel},
                                    context.stream());
  }
  if (plan.segments && kernels::IsAligned(context.input(0), kernels::kPackBytes) &&
      kernels::IsAligned(context.output(0), kernels::kPackBytes)) {
    return EnqueueSegments(plan, context, scale, bias);
  }
  const auto advanced = [&](const void* from, int64_t elems) -> const void* {
    if (from == nullptr) return nullptr;
    return static_cast<const std::byte*>(from) + elems * static_cast<int64_t>(SizeOf(spec_.affine_type));
  };
  for (int64_t i = 0; i < plan.outer; ++i) {
    int64_t affine = 0, rest = i;
    for (int d = plan.outer_dims.rank() - 1; d >= 0; --d) {
      affine += rest % plan.outer_dims[d] * plan.outer_affine[d];
      rest /= plan.outer_dims[d];
    }
    for (int64_t slice = 0; slice < plan.size; slice += plan.chunk) {
      const int64_t first = affine + slice * plan.slice_affine;
      CUDAEP_RETURN_IF_ERROR(EnqueuePart(plan, slice + plan.chunk <= plan.size ? plan.part : plan.last, context,
                                         (i * plan.size + slice) * plan.slice_elems, advanced(scale, first),
                                         advanced(bias, first)));
    }
  }
  return Status::Ok();
}

Status Normalization::EnqueuePart(const NormalizationPlan& plan, const Part& part, const OpContext& context,
                                  int64_t first_elem, const void* scale, const void* bias) const {
  const int64_t offset = first_elem * static_cast<int64_t>(SizeOf(spec_.type));
  const std::byte* const x = context.input<std::byte>(0) + offset;
  const kernels::ReduceOp op = Op();
  CUDAEP_RETURN_IF_ERROR(
      EnqueueReductionOf(kernels::FindReduceKernel(op, spec_.type), *part.reduction, context,
                         {.op = op,
                          .x = x,
                          .y = context.scratch(plan.statistics),
                          .workspace = context.scratch(plan.partials),
                          .epsilon = spec_.epsilon,
                          .deviation_epsilon = spec_.statistic == kernels::RowStatistic::kDeviation}));
  return kernels::LaunchNormalize({.type = spec_.type,
                                   .affine_type = spec_.affine_type,
                                   .x = x,
                                   .statistics = context.scratch(plan.statistics),
                                   .scale = scale,
                                   .bias = bias,
                                   .y = context.output<std::byte>(0) + offset,
                                   .swish = spec_.swish,
                                   .broadcast = &part.broadcast},
                                  context.stream());
}

}  // namespace cudaep::ops
