// Types that meet rarely, each in one kernel that has every mode: 16-bit floats where there are no tensor cores for
// them, and sums and softmax in fp64 for narrower types.
#include "core/data_type_traits.h"
#include "kernels/attention/flash.cuh"

namespace cudaep::kernels {
namespace {

template <class Sum>
using Launcher = Status (*)(const AttentionPlan&, const FlashArguments&, device::Stream);

template <class Sum, DataTypeSet types>
Launcher<Sum> FindLauncher(DataType type) {
  return VisitType<types>(type, Launcher<Sum>{nullptr}, []<class T>() -> Launcher<Sum> {
    return &LaunchFlashKernel<PlainProducts<T, Sum>, 64, FlashMode::kScores>;
  });
}

}  // namespace

Status LaunchFlashMixed(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream) {
  const AttentionProblem& p = plan.problem;
  const auto launch = p.compute == DataType::kDouble ? FindLauncher<double, kFloatTypesNoDouble>(p.type)
                                                     : FindLauncher<float, kFloat16Types>(p.type);
  if (launch == nullptr) return NotSupported("attention of ", DataTypeName(p.type));
  return launch(plan, arguments, stream);
}

}  // namespace cudaep::kernels
