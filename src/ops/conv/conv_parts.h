// Convolutions whose tensors are parts of ones with more channels, which a Concat would have joined or a Split taken
// apart: where the library has no plan for such tensors, or not yet, they are copied.
#pragma once

#include <functional>

#include "ops/conv/conv_run.h"
#include "ops/op_info.h"

namespace cudaep::ops {

// Parts begin at multiples of so many channels of 16 bits, and have as many in all: what the library's alignment asks.
inline constexpr int64_t kWholeChannels = dnn::kTensorAlignment / 2;

// Of a Conv of the fused domain: "x_first", "residual_first" and "y_first" are the first channels of parts, -1 where a
// tensor is none; "y_channels" are all of the result.
struct ConvParts {
  int64_t x_first = -1, residual_first = -1, y_first = -1, y_channels = 0;

  bool any() const { return x_first >= 0 || residual_first >= 0 || y_first >= 0; }
};

// Whether engines that are compiled in the background serve convolutions with the activation behind them anyway, as far
// as the settings let them. Those without activation or with Relu have precompiled ones, which take whole tensors alone
// and are faster by more than copies take (U-Net at a batch of 1 on an H200: 3,727 us a Run, 4,023 on parts).
bool CompilesFor(Activation activation, const ConvOptions& options);

// kNotSupported where nothing would ever take the parts as they lie: engines that are compiled do so for channels-last
// tensors of 16 bits in one group. A process compiles so many alone (CompileBudget), and none where a memory limit
// leaves no room: parts are copied then.
Result<ConvParts> ParseConvParts(const OpInfo& info, const ConvOptions& options, const ConvAttributes& attributes,
                                 Activation activation, bool channels_last);

// Makes room for the copies in the plan's workspace.
void PlaceParts(ConvRunPlan* plan);

// `call` with tensors without gaps: copies of those that are parts. The result is copied to its place.
Status CallOnCopies(const ConvRunPlan& plan, StreamContext& stream, dnn::ConvPointers at,
                    const std::function<Status(const dnn::ConvPointers&)>& call);

}  // namespace cudaep::ops
