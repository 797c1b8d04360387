#include "ops/conv/conv_parts.h"

#include "core/checked_math.h"
#include "kernels/movement/segments.h"

namespace cudaep::ops {
namespace {

// The rows of a part: a pixel each.
kernels::SegmentRows RowsOf(const dnn::ConvProblem& p, const dnn::Spatial& size, int64_t pitch) {
  return {.rows = p.batch * ProductOfUsed(size, p.spatial_rank),
          .whole_bytes = pitch * static_cast<int64_t>(SizeOf(p.types.a))};
}

kernels::Segment Copied(const dnn::ConvProblem& p, int64_t channels, void* copy) {
  return {.pointer = copy, .row_bytes = channels * static_cast<int64_t>(SizeOf(p.types.a))};
}

}  // namespace

bool CompilesFor(Activation activation, const ConvOptions& options) {
  const bool compiles = options.product.compiles && !options.product.deterministic && options.use_library;
  return compiles && options.path == ConvPath::kAuto && options.search != ConvSearch::kDefault &&
         activation != Activation::kNone && activation != Activation::kRelu;
}

Result<ConvParts> ParseConvParts(const OpInfo& info, const ConvOptions& options, const ConvAttributes& attributes,
                                 Activation activation, bool channels_last) {
  ConvParts parts{.x_first = info.IntOr("x_first", -1),
                  .residual_first = info.IntOr("residual_first", -1),
                  .y_first = info.IntOr("y_first", -1),
                  .y_channels = info.IntOr("y_channels", 0)};
  if (!parts.any()) return parts;
  const DataType type = info.input_type(0);
  if (!channels_last || attributes.groups != 1 || !kFloat16Types.Contains(type)) {
    return NotSupported("parts of images but of channels-last ones of 16 bits, in one group");
  }
  if (!CompilesFor(activation, options)) return NotSupported("parts of images where the library compiles nothing");
  for (const int64_t channel : {parts.x_first, parts.residual_first, parts.y_first, parts.y_channels}) {
    if (channel > 0 && channel % kWholeChannels != 0) return NotSupported("parts that begin at channel ", channel);
  }
  return parts;
}

void PlaceParts(ConvRunPlan* plan) {
  const dnn::ConvProblem& p = plan->problem;
  size_t next = AlignUp(plan->workspace_bytes, kPartAlignment);
  const auto place = [&](const dnn::Spatial& size, int64_t channels, int64_t pitch) {
    const size_t offset = next;
    const int64_t elems = pitch == 0 ? 0 : p.batch * ProductOfUsed(size, p.spatial_rank) * channels;
    next += AlignUp(static_cast<size_t>(elems) * SizeOf(p.types.a), kPartAlignment);
    return offset;
  };
  plan->part_copies = {.x = place(p.in, p.in_channels, p.x_pitch),
                       .residual = place(p.out, p.out_channels, p.residual_pitch),
                       .y = place(p.out, p.out_channels, p.y_pitch)};
  plan->workspace_bytes = next;
}

Status CallOnCopies(const ConvRunPlan& plan, StreamContext& stream, dnn::ConvPointers at,
                    const std::function<Status(const dnn::ConvPointers&)>& call) {
  const dnn::ConvProblem& p = plan.problem;
  auto* const workspace = static_cast<std::byte*>(at.workspace);
  const auto take = [&](const void** part, size_t offset, const dnn::Spatial& size, int64_t channels,
                        int64_t pitch) -> Status {
    if (pitch == 0) return Status::Ok();
    const kernels::Segment copied = Copied(p, channels, workspace + offset);
    CUDAEP_RETURN_IF_ERROR(kernels::LaunchSplit(RowsOf(p, size, pitch), {&copied, 1}, *part, stream.stream()));
    *part = copied.pointer;
    return Status::Ok();
  };
  CUDAEP_RETURN_IF_ERROR(take(&at.x, plan.part_copies.x, p.in, p.in_channels, p.x_pitch));
  CUDAEP_RETURN_IF_ERROR(take(&at.residual, plan.part_copies.residual, p.out, p.out_channels, p.residual_pitch));
  void* const result = at.y;
  if (p.y_pitch != 0) at.y = workspace + plan.part_copies.y;
  CUDAEP_RETURN_IF_ERROR(call(at));
  if (p.y_pitch == 0) return Status::Ok();
  const kernels::Segment copied = Copied(p, p.out_channels, at.y);
  return kernels::LaunchJoin(RowsOf(p, p.out, p.y_pitch), {&copied, 1}, result, stream.stream());
}

}  // namespace cudaep::ops
