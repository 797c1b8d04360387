// How the ranks of a group meet before they can talk: rank 0 gives the others the group's id through files.
//
// `file` is rank 0's, `file.N` that of rank N. Every attempt has a nonce: rank N shows its own, rank 0 answers with the
// id for the nonces it has seen, rank N confirms rank 0's nonce. So what an earlier group has left there, crashed or
// not, is never taken for an answer; it is overwritten or removed. When all have confirmed, rank 0 removes the files,
// and the next group may meet there (docs/adr/014-collectives.md). Threads: any; the ranks may be threads of one
// process. Errors: kFailedPrecondition naming rank, file and who is missing after the time limit, for a rank that
// exists twice, for ranks that disagree about the group; kDeviceError for files that cannot be written.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/comm.h"
#include "runtime/settings.h"

namespace cudaep {

// The group's id, made by `make_id` in rank 0. `backend` must be the same in all ranks.
Result<comm::UniqueId> Meet(const GroupSettings& group, std::string_view backend,
                            const std::function<Result<comm::UniqueId>()>& make_id);

}  // namespace cudaep
