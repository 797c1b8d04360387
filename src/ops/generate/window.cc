// HannWindow, HammingWindow and BlackmanWindow.
#include "kernels/generate/window.h"

#include "ops/registry.h"
#include "ops/shape/host_ints.h"

namespace cudaep::ops {
namespace {

enum class WindowKind : uint8_t { kHann, kHamming, kBlackman };

kernels::CosineWindow CosinesOf(WindowKind kind) {
  switch (kind) {
    case WindowKind::kHann:
      return {.constant = 0.5, .first = 0.5};
    case WindowKind::kHamming:
      return {.constant = 25.0 / 46.0, .first = 21.0 / 46.0};
    default:
      return {.constant = 0.42, .first = 0.5, .second = 0.08};
  }
}

class Window final : public Operator {
 public:
  Window(WindowKind kind, DataType type, bool periodic) : cosines_(CosinesOf(kind)), type_(type), periodic_(periodic) {}

  static Result<std::unique_ptr<Window>> Create(const OpInfo& info, const KernelRow& row) {
    const int64_t type = info.IntOr("output_datatype", static_cast<int64_t>(DataType::kFloat));
    if (type < 0 || type >= kDataTypeCount || !kNumericTypes.Contains(static_cast<DataType>(type))) {
      return InvalidArgument("output_datatype ", type, " is no number's type");
    }
    return std::make_unique<Window>(row.VariantAs<WindowKind>(), static_cast<DataType>(type),
                                    info.BoolOr("periodic", true));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<int64_t> size, HostInts(inputs[0], "size"));
    if (size.size() != 1 || size[0] < 0) return InvalidArgument("size ", Dims(size), " is no size");
    outputs[0] = Shape{size[0]};
    return Status::Ok();
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    kernels::CosineWindow window = cosines_;
    window.size = plan.outputs[0][0];
    window.period = static_cast<double>(periodic_ ? window.size : window.size - 1);
    return kernels::LaunchWindow(window, type_, context.output(0), context.stream());
  }

 private:
  kernels::CosineWindow cosines_;
  DataType type_;
  bool periodic_;
};

KernelRow WindowRow(const char* op, WindowKind kind) {
  return {.op = op,
          .since = 17,
          .until = 17,
          .types = {{"T1", kIndexTypes}, {"T2", kNumericTypes}},
          .host_inputs = {0},
          .variant = static_cast<int>(kind),
          .make = Make<Window>};
}

const RegisterRows kRows({
    WindowRow("HannWindow", WindowKind::kHann),
    WindowRow("HammingWindow", WindowKind::kHamming),
    WindowRow("BlackmanWindow", WindowKind::kBlackman),
});

}  // namespace
}  // namespace cudaep::ops
