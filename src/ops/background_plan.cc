#include "ops/background_plan.h"

#include <utility>

namespace cudaep::ops {
namespace {

constexpr int kMostCompiled = 512;  // some ten models; lengths or sizes that never end use no CPU for ever
constexpr size_t kRoomToCompile = size_t{64} << 20;  // one more handle of cuDNN takes 8 to 36 MiB meanwhile

}  // namespace

CompileBudget& CompileBudget::Process() {
  static CompileBudget budget(kMostCompiled);
  return budget;
}

bool MayCompile(const StreamContext& stream, const CompileBudget& budget) {
  return budget.IsOpen() && stream.memory()->budget().available_bytes() >= kRoomToCompile;
}

PlanStore::Make OnOwnHandle(const StreamContext& stream, std::function<Result<LibraryPlanPtr>(dnn::Handle&)> make,
                            CompileBudget& budget) {
  const std::weak_ptr<memory::DeviceMemory> memory = stream.memory();
  return [memory, ordinal = stream.ordinal(), make = std::move(make),
          &budget](const std::string&) -> Result<LibraryPlanPtr> {
    const device::DeviceGuard guard(ordinal);  // for what ends with the session's memory, too
    CUDAEP_RETURN_IF_ERROR(guard.status());
    const auto present = memory.lock();
    if (present == nullptr) return FailedPrecondition("the session that asked for the plan has ended");
    device::CaptureMode mode = device::CaptureMode::kRelaxed;
    CUDAEP_RETURN_IF_ERROR(device::ThreadExchangeCaptureMode(&mode));
    CUDAEP_ASSIGN_OR_RETURN(const HandleLease<dnn::Handle> handle, LeaseDnn(present));
    if (!budget.Take()) return FailedPrecondition("as many plans have been compiled as may be");
    return make(*handle.get());
  };
}

}  // namespace cudaep::ops
