// What the planner and the kernels of attention share.
#pragma once

#include "kernels/attention/attention.h"

namespace cudaep::kernels {

inline constexpr int kWarpRows = 16;  // of queries that a warp works on
inline constexpr int kMostWarps = 4;  // of a block
inline constexpr int kMostSplits = 64;
// What the kernel that has all keys of a head at once has room for: keys, and elements of a head.
inline constexpr int kWholeRowsKeys = 128, kWholeRowsHead = 64;
// The same of the kernel of warpgroups.
inline constexpr int kWarpgroupHeadsKeys = 256, kWarpgroupHeadsHead = 64;
// Of the kernel of few queries: its rows are those of one warp. What keys are split by; warps of a block.
inline constexpr int kFewQueriesKeys = 64, kFewQueriesWarps = 4;
// What the kernel of short windows has room for: keys, and as many queries; the size of its heads.
inline constexpr int kWindowKeys = 64, kWindowHead = 32;
inline constexpr int kWeightPad = 4;  // elements after a row of weights in shared memory

// Keys that a block works on together.
constexpr int TileKeys(AttentionKernel kernel) { return kernel == AttentionKernel::kTensorCores ? 64 : 32; }

int64_t FlashBlocks(const AttentionPlan& plan);  // without splits

// Entries of the batch that differ in what is added to scores: from so many on they come again.
int64_t WindowEntries(const AttentionProblem& problem);

// Combinations of types that only have the kernel with every mode: 16-bit floats without tensor cores, and softmax in
// fp64 of what is narrower.
bool IsRareKernel(const AttentionPlan& plan);
// Whether the kernel of warpgroups takes the problem, whose heads are whole packs, in calls that TakesWholeHead
// takes and whose y has aligned rows, or that TakesWarpgroupBias takes.
bool TakesWarpgroupHeads(const AttentionProblem& problem, const device::DeviceInfo& device);
// Whether there is a kernel for 128 columns of v.
bool HasWideTile(const AttentionPlan& plan);

// What is added to scores, beside what hides keys by where they lie.
enum class FlashAdded : int {
  kNothing,
  kByKey,  // the same in all rows of a block: found once a tile
  kByScore,
};

// What the kernel takes.
struct FlashArguments {
  AttentionProblem problem;
  AttentionPointers at;
  int64_t row_tiles, head_groups, value_chunks;
  int packed, group, splits, depth, depth_chunks;
  int q_aligned, k_aligned, v_aligned, y_aligned, y_pairs;
  int windowed;  // whether some query does not see all keys
  FlashAdded added;
};
FlashArguments MakeFlashArguments(const AttentionPlan& plan, const AttentionPointers& at);
// Whether rows begin and are spaced at whole packs of `pack` elements.
bool IsWhole(const AttentionProblem& p, const void* pointer, const AttentionStrides& strides, int64_t pack);

// Kernels by what they can do. What a kernel has but does not run costs time all the same where launches are short: it
// lies between the instructions that each launch fetches anew, and takes registers.
enum class FlashMode : uint8_t {
  kPlain,   // aligned rows; nothing added but by key; no softcap, no sink
  kAny,     // all but scores
  kScores,  // scores may be wanted
};
FlashMode FlashModeOf(const FlashArguments& arguments);

// Whether a plan's kernel that has all keys of a head at once takes the call: one of mode kPlain without a range of
// keys.
bool TakesWholeHead(const FlashArguments& arguments);
// Whether a plan's kernel of short windows takes the call: a bias for each score and nothing else, aligned rows.
bool TakesWindows(const FlashArguments& arguments);
// Whether the bias is given key after key, in rows that are spaced at whole packs.
bool HasAlignedBiasRows(const AttentionProblem& problem);
// Whether a plan's kernel of warpgroups takes the call beside those of TakesWholeHead: such a bias for each score,
// whose rows are aligned like all others, and nothing else but a window.
bool TakesWarpgroupBias(const FlashArguments& arguments);

// The files that hold kernels; LaunchAttention chooses among them.
Status LaunchFlashHalf(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
Status LaunchFlashBFloat16(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
Status LaunchFlashFloat(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
Status LaunchFlashDouble(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
Status LaunchFlashMixed(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
// Of a plan that says so, where TakesWholeHead.
Status LaunchWholeRows(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
// The same with y_aligned, or TakesWarpgroupBias.
Status LaunchWarpgroupHeads(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
// Of a plan that says so, where TakesWindows.
Status LaunchWindows(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
// Of a plan that says so, in mode kPlain.
Status LaunchFewQueries(const AttentionPlan& plan, const FlashArguments& arguments, device::Stream stream);
// Joins the parts of a plan with splits.
Status LaunchJoinSplits(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
