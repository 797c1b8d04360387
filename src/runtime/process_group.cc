#include "runtime/process_group.h"

#include "device/device.h"
#include "runtime/rendezvous.h"

namespace cudaep {

Result<std::unique_ptr<comm::Communicator>> JoinGroup(const GroupSettings& group) {
  if (group.size <= 1) return std::unique_ptr<comm::Communicator>();
  CUDAEP_RETURN_IF_ERROR(comm::Version().status());  // a library that is missing is said before anybody waits
  CUDAEP_ASSIGN_OR_RETURN(const comm::UniqueId id, Meet(group, device::BackendName(), comm::MakeUniqueId));
  return comm::Join(id, group.rank, group.size, std::chrono::seconds(group.timeout_s));
}

}  // namespace cudaep
