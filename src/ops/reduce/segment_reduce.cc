// SegmentReduce, which compiled regions make of Loops over bags: sum, mean or maximum of segments of rows, or of the
// rows of a table that a list of indices names.
//
// No segments give no rows, where the model's concatenation of an empty sequence is an error of the host's.
#include "ops/reduce/segment_reduce.h"

#include "core/strings.h"
#include "kernels/reduce/segment_reduce.h"
#include "ops/optional_input.h"
#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

using kernels::SegmentReduction;

class SegmentReduce final : public Operator {
 public:
  static Result<std::unique_ptr<SegmentReduce>> Create(const OpInfo& info) {
    auto op = std::make_unique<SegmentReduce>();
    op->type_ = info.input_type(kSegmentRows);
    op->empty_is_zero_ = info.IntOr("empty_is_zero", 0) != 0;
    op->counted_ = info.IntOr("counted", -1);
    const std::string reduction = info.StringOr("reduction", "");
    if (reduction != "sum" && reduction != "mean" && reduction != "max") {
      return InvalidArgument("reduction '", reduction, "'; sum, mean and max are known");
    }
    op->reduction_ = reduction == "sum"    ? SegmentReduction::kSum
                     : reduction == "mean" ? SegmentReduction::kMean
                                           : SegmentReduction::kMax;
    return op;
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_RETURN_IF_ERROR(Length(inputs).status());
    CUDAEP_ASSIGN_OR_RETURN(const int64_t segments, Segments(inputs));
    outputs[0] = Shape{segments, inputs[kSegmentRows].dim[1]};
    return CheckedElementCount(outputs[0].dims()).status();
  }

  bool PlanReadsHostInput(int index) const override { return index != kSegmentTail; }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const TensorView rows = context.inputs[kSegmentRows];
    const TensorView indices = InputAt(context.inputs, kSegmentIndices),
                     weights = InputAt(context.inputs, kSegmentWeights);
    kernels::SegmentReduceArgs args{.type = type_,
                                    .reduction = reduction_,
                                    .rows = rows.data,
                                    .row_count = rows.dim[0],
                                    .width = rows.dim[1],
                                    .indices = ListOf(indices),
                                    .weights = weights.data,
                                    .one_index = (indices.present() ? indices : rows).dim[0] == 1,
                                    .one_weight = weights.present() && weights.dim[0] == 1,
                                    .starts = ListOf(context.inputs[kSegmentStarts]),
                                    .ends = ListOf(InputAt(context.inputs, kSegmentEnds)),
                                    .segments = context.shapes[0][0],
                                    .empty_is_zero = empty_is_zero_,
                                    .counted = counted_,
                                    .y = context.output(0)};
    CUDAEP_ASSIGN_OR_RETURN(args.length, Length(context.inputs));
    if (args.ends.pointer == nullptr) {
      const size_t step = SizeOf(context.inputs[kSegmentStarts].type);
      args.ends = {static_cast<const std::byte*>(args.starts.pointer) + step, args.starts.wide};
    }
    if (HasInput(context.inputs, kSegmentTail)) {
      CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> tail, HostInts(context.inputs[kSegmentTail], "the last end"));
      args.tail = tail.front();
      args.tail_segment = context.inputs[kSegmentStarts].dim[0] - 1;
    }
    if (HasInput(context.inputs, kSegmentCounted)) args.counted = context.inputs[kSegmentCounted].dim[0];
    return kernels::LaunchSegmentReduce(args, context.stream());
  }

 private:
  static kernels::GatherIndices ListOf(const TensorView& list) { return {list.data, list.type == DataType::kInt64}; }

  // Of the list that segments are parts of. One index or weight is for all.
  static Result<int64_t> Length(TensorViews inputs) {
    const TensorView& rows = inputs[kSegmentRows];
    const TensorView indices = InputAt(inputs, kSegmentIndices), weights = InputAt(inputs, kSegmentWeights);
    if (rows.rank != 2) return InvalidArgument("rows of ", rows.dims(), " are no matrix");
    for (const TensorView& list : {inputs[kSegmentStarts], InputAt(inputs, kSegmentEnds), indices, weights}) {
      if (list.present() && list.rank != 1)
        return InvalidArgument("a list of ", list.dims(), " must have one dimension");
    }
    if (HasInput(inputs, kSegmentCounted) && inputs[kSegmentCounted].rank == 0)
      return InvalidArgument("a scalar has no length");
    const int64_t own = (indices.present() ? indices : rows).dim[0];
    if (!weights.present()) return own;
    CUDAEP_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(Shape{own}, weights.dims()));
    return both[0];
  }

  static Result<int64_t> Segments(TensorViews inputs) {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> count,
                            HostInts(inputs[kSegmentCount], "the number of segments"));
    if (count.size() != 1) return InvalidArgument("the number of segments has ", count.size(), " elements");
    int64_t segments = std::max<int64_t>(count[0], 0);
    if (const TensorView condition = InputAt(inputs, kSegmentCondition); condition.present()) {
      if (condition.elems() != 1) return InvalidArgument("the condition has ", condition.elems(), " elements");
      segments = *static_cast<const bool*>(condition.data) ? std::max<int64_t>(segments, 1) : 0;
    }
    const TensorView ends = InputAt(inputs, kSegmentEnds);
    const TensorView tail = InputAt(inputs, kSegmentTail);
    if (tail.present() && (ends.present() || tail.elems() != 1)) {
      return InvalidArgument("a last end of ", tail.dims(), ends.present() ? " beside a list of ends" : "");
    }
    const int64_t starts = inputs[kSegmentStarts].dim[0] - (ends.present() || tail.present() ? 0 : 1);
    if (segments > (ends.present() ? std::min(starts, ends.dim[0]) : std::max<int64_t>(starts, 0))) {
      return InvalidArgument(segments, " segments begin and end in lists of ", inputs[kSegmentStarts].dims(),
                             ends.present() ? StrCat(" and ", ends.dims()) : std::string());
    }
    return segments;
  }

  DataType type_ = DataType::kUndefined;
  SegmentReduction reduction_ = SegmentReduction::kSum;
  bool empty_is_zero_ = false;
  int64_t counted_ = -1;
};

const RegisterRows kRows({{.domain = kFusedDomain,
                           .op = "SegmentReduce",
                           .types = {{"T", kFloatTypesNoDouble},
                                     {"I0", kIndexTypes},
                                     {"I1", kIndexTypes},
                                     {"I2", kIndexTypes},
                                     {"I3", kIndexTypes}},
                           .host_inputs = {kSegmentCount, kSegmentCondition, kSegmentTail},
                           .make = Make<SegmentReduce>}});

}  // namespace
}  // namespace cudaep::ops
