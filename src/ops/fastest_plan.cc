#include "ops/fastest_plan.h"

#include "core/log.h"
#include "core/strings.h"

namespace cudaep::ops {

Result<PlanSlotPtr> FindMeasuredPlan(const PlanStore::Request& request, size_t limit, const PlanStore::Make& make) {
  const std::string key = StrCat(request.problem, " measured");
  PlanStore::Request measured = request;
  measured.problem = key;
  auto slot = PlanStore::Process().Get(measured, make);
  if (slot.ok() && (*slot)->plan().workspace_bytes() <= limit) return slot;
  const StatusCode code = slot.status().code();
  if (!slot.ok() && code != StatusCode::kOutOfMemory && code != StatusCode::kNotReady) return slot;
  Log(LogLevel::kInfo, request.problem, " runs by the library's first plan: ",
      slot.ok() ? "the measured one needs more workspace than there is" : slot.status().message());
  return PlanSlotPtr();
}

}  // namespace cudaep::ops
