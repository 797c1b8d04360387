// Kernels of If, Loop and Scan: the host's own, lent through its API, and what they need done on our device.
//
// The host runs the subgraphs, whose nodes are placed one by one like those of the main graph, and owns every value. It
// reads conditions and trip counts in host memory. Two things it leaves to the provider: to join what the iterations of
// a Loop gave, and to transpose what a Scan reads or writes along another axis than the first.
// Threads: as kernels; the helpers are immutable and called from any Run.
#pragma once

#include "abi/host.h"
#include "ops/registry.h"

namespace cudaep::abi {

// Creation function of the host's kernel registry for rows of `kind`, which must not be kOperator.
OrtKernelCreateFunc ControlFlowKernel(ops::RowKind kind);

}  // namespace cudaep::abi
