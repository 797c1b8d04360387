#include "ops/background_plan.h"

#include <utility>

namespace cudaep::ops {

PlanStore::Make OnOwnHandle(const StreamContext& stream, std::function<Result<LibraryPlanPtr>(dnn::Handle&)> make) {
  const std::weak_ptr<memory::DeviceMemory> memory = stream.memory();
  return [memory, ordinal = stream.ordinal(), make = std::move(make)](const std::string&) -> Result<LibraryPlanPtr> {
    const device::DeviceGuard guard(ordinal);  // for what ends with the session's memory, too
    CUDAEP_RETURN_IF_ERROR(guard.status());
    const auto present = memory.lock();
    if (present == nullptr) return FailedPrecondition("the session that asked for the plan has ended");
    device::CaptureMode mode = device::CaptureMode::kRelaxed;
    CUDAEP_RETURN_IF_ERROR(device::ThreadExchangeCaptureMode(&mode));
    CUDAEP_ASSIGN_OR_RETURN(const HandleLease<dnn::Handle> handle, LeaseDnn(present));
    return make(*handle.get());
  };
}

}  // namespace cudaep::ops
