// Queries that no key takes part for, as what is added to their scores says: their results become zeros, or NaN where
// the problem says so. For implementations that leave something else there, behind them on the stream.
#pragma once

#include "kernels/attention/attention.h"

namespace cudaep::kernels {

// Reads the bias, each row of it up to the first key that it does not hide. Of 16-bit floats, causal or not; nothing
// else may hide keys.
Status LaunchEmptyRows(const AttentionProblem& problem, const AttentionPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
