// The communicator of a session: its rank meets the others and joins.
#pragma once

#include <memory>

#include "lib/comm.h"
#include "runtime/settings.h"

namespace cudaep {

// On the session's device, which is current. Null for a group of one, which needs nobody. Waits for the other ranks, up
// to the group's time limit.
Result<std::unique_ptr<comm::Communicator>> JoinGroup(const GroupSettings& group);

}  // namespace cudaep
