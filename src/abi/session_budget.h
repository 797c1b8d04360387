// A session's memory budget as its host states it: the setting, the stats file, and what each host does with them.
//
// clang-format off
// | host       | setting                                           | enforced by the host for          |
// |------------|---------------------------------------------------|-----------------------------------|
// | 1.24       | refused without a stats file                      | nobody                            |
// | 1.25       | read                                              | nobody                            |
// | 1.26, 1.27 | read; without a limit OrtEp::GetAvailableResource | every provider of a library       |
// | 1.28 on    | the same                                          | those named CUDAExecutionProvider |
// clang-format on
//
// The limit is in units of 1024 bytes. A host that enforces takes single nodes in the order they were claimed, each for
// 1.5 times its weights and outputs of known shape, or for the sum of its line in the stats file, and drops the first
// that does not fit and all after it. No host up to 1.31 has a function by which a provider could state a node's cost,
// or that claiming has ended. So the provider keeps its own account (graph/budget.h) on all hosts and under both names.
// Where the host enforces too, a node needs the consent of both, and a region whose nodes do not all have the host's is
// dropped whole: so without a stats file the provider counts as the host does, beside its own account.
// A host reads the stats file before it asks the provider, and fails the session itself where there is none.
#pragma once

#include <optional>
#include <string_view>

#include "abi/host.h"
#include "graph/budget.h"

namespace cudaep::abi {

// Absent where the session has no budget. kInvalidArgument for a malformed one, kNotSupported for one that this host
// refuses. `ep_name` is the provider's.
Result<std::optional<graph::BudgetSetting>> ReadBudgetSetting(const OrtSessionOptions* options,
                                                              std::string_view ep_name);

// `file` is relative to the folder of the graph's model; empty for no stats.
Result<graph::NodeStats> ReadNodeStats(const OrtGraph* graph, const std::string& file);

}  // namespace cudaep::abi
