// EyeLike: ones on a diagonal; only the shape of the input counts, and its type where no other is given.
#include "core/data_type_traits.h"
#include "kernels/movement/one_hot.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

constexpr DataTypeSet kEyeTypes = kNumericTypes | DataTypeSet(DataType::kBool);

uint64_t BitsOfOne(DataType type) {
  return VisitType<kEyeTypes>(type, uint64_t{0}, []<class T>() {
    const T one = Store<T>(ComputeType<T>(1));
    uint64_t bits = 0;
    std::memcpy(&bits, &one, sizeof(one));
    return bits;
  });
}

class EyeLike final : public Operator {
 public:
  EyeLike(DataType type, int64_t k) : elem_bytes_(static_cast<int>(SizeOf(type))), one_(BitsOfOne(type)), k_(k) {}

  static Result<std::unique_ptr<EyeLike>> Create(const OpInfo& info) {
    const DataType type = info.output_type(0);
    if (!kEyeTypes.Contains(type)) return NotSupported("element type ", DataTypeName(type));
    return std::make_unique<EyeLike>(type, info.IntOr("k", 0));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    if (inputs[0].rank != 2) return InvalidArgument("input has shape ", inputs[0].dims(), ", expected a matrix");
    outputs[0].Assign(inputs[0].dims());
    return Status::Ok();
  }

  Status Enqueue(const Plan&, const OpContext& context) const override {
    const Dims dims = context.inputs[0].dims();
    return kernels::LaunchEye(dims[0], dims[1], k_, elem_bytes_, one_, context.output(0), context.stream());
  }

 private:
  int elem_bytes_;
  uint64_t one_;
  int64_t k_;
};

const RegisterRows kRows({
    {.op = "EyeLike", .since = 9, .until = 22, .types = {{"T1", kEyeTypes}, {"T2", kEyeTypes}}, .make = Make<EyeLike>},
});

}  // namespace
}  // namespace cudaep::ops
