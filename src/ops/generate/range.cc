// Range; that of com.microsoft may leave out its delta of 1. The three numbers are read on the host; one plan serves
// them all, as a decoder has others in each step. Floats of 16 bits are counted in fp32 and rounded at the end.
#include "kernels/generate/range.h"

#include <cmath>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// How many numbers lie in [start, limit), or in (limit, start] for a negative delta. Differences of floats are rounded
// to their type, as the CPU provider does.
template <class T>
Result<int64_t> CountOf(T start, T limit, T delta) {
  if (delta == T(0)) return InvalidArgument("delta is 0");
  if constexpr (std::is_floating_point_v<T>) {
    const double count = std::ceil(static_cast<double>(limit - start) / static_cast<double>(delta));
    if (!(count < 0x1p62)) return InvalidArgument("a range from ", start, " to ", limit, " in steps of ", delta);
    return count > 0 ? static_cast<int64_t>(count) : 0;
  } else {
    if (delta > 0 ? limit <= start : limit >= start) return 0;
    const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(limit);
    const uint64_t distance = delta > 0 ? to - from : from - to;
    const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
    const uint64_t count = CeilDiv(distance, step);
    if (count >= uint64_t{1} << 62) {
      return InvalidArgument("a range from ", start, " to ", limit, " in steps of ", delta);
    }
    return static_cast<int64_t>(count);
  }
}

template <class T>
Result<kernels::RangeValues> ValuesOf(TensorViews inputs) {
  using C = ComputeType<T>;
  const C start = Load(inputs[0].host<T>()[0]), limit = Load(inputs[1].host<T>()[0]);
  const C delta = inputs.size() > 2 && inputs[2].present() ? Load(inputs[2].host<T>()[0]) : C(1);
  kernels::RangeValues range{.type = inputs[0].type};
  CUDAEP_ASSIGN_OR_RETURN(range.count, CountOf(start, limit, delta));
  range.start = static_cast<double>(start);
  range.delta = static_cast<double>(delta);
  if constexpr (std::is_integral_v<T>) {
    range.integer_start = static_cast<uint64_t>(start);
    range.integer_delta = static_cast<uint64_t>(delta);
  }
  return range;
}

Result<kernels::RangeValues> ValuesOf(TensorViews inputs) {
  constexpr const char* kNames[] = {"start", "limit", "delta"};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].present() && inputs[i].elems() != 1) {
      return InvalidArgument(kNames[i], " has shape ", inputs[i].dims(), ", expected one element");
    }
  }
  using Read = Result<kernels::RangeValues> (*)(TensorViews);
  const Read read =
      VisitType<kernels::kRangeTypes>(inputs[0].type, Read{nullptr}, []<class T>() -> Read { return &ValuesOf<T>; });
  if (read == nullptr) return NotSupported("element type ", DataTypeName(inputs[0].type));
  return read(inputs);
}

class Range final : public Operator {
 public:
  static Result<std::unique_ptr<Range>> Create(const OpInfo& info) {
    const auto stash = static_cast<DataType>(info.IntOr("stash_type", static_cast<int64_t>(DataType::kFloat)));
    if (kFloat16Types.Contains(info.input_type(0)) && stash != DataType::kFloat) {
      return NotSupported("stash_type ", DataTypeName(stash), "; ranges of 16 bits are computed in float");
    }
    return std::make_unique<Range>();
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::RangeValues range, ValuesOf(inputs));
    outputs[0] = Shape{range.count};
    return Status::Ok();
  }

  bool MakePlanKey(TensorViews, PlanKey&) const override { return true; }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    CUDAEP_ASSIGN_OR_RETURN(const kernels::RangeValues range, ValuesOf(context.inputs));
    return kernels::LaunchRange(range, context.output(0), context.stream());
  }
};

KernelRow Row(int since, int until, DataTypeSet types, const char* domain = kOnnxDomain) {
  return {.domain = domain,
          .op = "Range",
          .since = since,
          .until = until,
          .types = {{"T", types}},
          .host_inputs = {0, 1, 2},
          .make = Make<Range>};
}

const RegisterRows kRows({
    Row(11, 11, kernels::kRangeTypes - kFloat16Types),
    Row(27, 27, kernels::kRangeTypes),
    Row(1, 1, kernels::kRangeTypes - kFloat16Types, kMicrosoftDomain),
});

}  // namespace
}  // namespace cudaep::ops
