// Cast and CastLike.
#include "kernels/elementwise/cast.h"

#include <utility>

#include "kernels/elementwise/cast_narrow.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr DataTypeSet kTypes = kernels::kCastTypes | kernels::kNarrowTypes;

Result<kernels::PowerRounding> PowerRoundingOf(const OpInfo& info) {
  constexpr std::pair<const char*, kernels::PowerRounding> kModes[] = {{"up", kernels::PowerRounding::kUp},
                                                                       {"down", kernels::PowerRounding::kDown},
                                                                       {"nearest", kernels::PowerRounding::kNearest}};
  const std::string wanted = info.StringOr("round_mode", "up");
  for (const auto& [name, mode] : kModes) {
    if (wanted == name) return mode;
  }
  return InvalidArgument("round_mode '", wanted, "'; up, down and nearest are known");
}

class Cast : public Operator {
 public:
  Cast(DataType from, DataType to, kernels::NarrowRounding rounding)
      : kernel_(kernels::FindCastKernel(from)), from_(from), to_(to), rounding_(rounding) {}

  static Result<std::unique_ptr<Cast>> Create(const OpInfo& info) {
    const DataType from = info.input_type(0);
    const DataType to = info.op_type() == "CastLike" ? info.input_type(1) : static_cast<DataType>(info.IntOr("to", 0));
    if (!kTypes.Contains(from) || !kTypes.Contains(to)) {
      return NotSupported("no cast from ", DataTypeName(from), " to ", DataTypeName(to));
    }
    CUDAEP_ASSIGN_OR_RETURN(const kernels::PowerRounding power, PowerRoundingOf(info));
    return std::make_unique<Cast>(from, to,
                                  kernels::NarrowRounding{.saturate = info.BoolOr("saturate", true), .power = power});
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    outputs[0] = Shape(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const kernels::CastArgs args{
        .x = context.input(0), .y = context.output(0), .to = to_, .elems = plan.outputs[0].elems()};
    if (kernel_ != nullptr && kernels::kCastTypes.Contains(to_)) return kernel_(args, context.stream());
    return kernels::LaunchNarrowCast(from_, args, rounding_, context.stream());
  }

 private:
  kernels::CastKernel kernel_;  // null for narrow types
  DataType from_, to_;
  kernels::NarrowRounding rounding_;
};

KernelRow Row(const char* op, int since, int until) {
  return {.op = op, .since = since, .until = until, .types = {{"T1", kTypes}, {"T2", kTypes}}, .make = Make<Cast>};
}

const RegisterRows kRows({
    Row("Cast", 6, 28),
    Row("CastLike", 15, 25),
});

}  // namespace
}  // namespace cudaep::ops
