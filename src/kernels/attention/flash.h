// What the planner and the kernels of attention share.
#pragma once

#include "kernels/attention/attention.h"

namespace cudaep::kernels {

inline constexpr int kWarpRows = 16;  // of queries that a warp works on
inline constexpr int kMostWarps = 4;  // of a block
inline constexpr int kMostSplits = 64;
inline constexpr int kWeightPad = 4;  // elements after a row of weights in shared memory

// Keys that a block works on together.
constexpr int TileKeys(AttentionKernel kernel) { return kernel == AttentionKernel::kTensorCores ? 64 : 32; }

int64_t FlashBlocks(const AttentionPlan& plan);  // without splits

// Combinations of types that only have the kernel with every mode: 16-bit floats without tensor cores, and softmax in
// fp64 of what is narrower.
bool IsRareKernel(const AttentionPlan& plan);
// Whether there is a kernel for 128 columns of v.
bool HasWideTile(const AttentionPlan& plan);

// The files that hold kernels; LaunchAttention chooses among them.
Status LaunchFlashHalf(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);
Status LaunchFlashBFloat16(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);
Status LaunchFlashFloat(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);
Status LaunchFlashDouble(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);
Status LaunchFlashMixed(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);
// Joins the parts of a plan with splits.
Status LaunchJoinSplits(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
