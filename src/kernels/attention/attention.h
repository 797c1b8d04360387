// Scaled dot-product attention with online softmax: memory linear in the number of keys, unless the caller asks for the
// scores.
//
//   s[i, j] = softcap(scale * q[i] . k[j]) + bias[i, j],  y[i] = sum over j of softmax(s[i])[j] * v[j]
//
// Key j takes part for query i where the mask, the range of keys and the window around the diagonal allow it. A query
// without any key gets zeros, or NaN on demand. Heads of the queries share a head of keys and values in equal groups.
//
// Numerics: products of 16-bit floats by tensor cores with fp32 sums, of fp32 and fp64 in their own type; softmax in
// fp32, or in fp64 where `compute` says so. The order of sums is fixed: results are the same in every launch.
#pragma once

#include <cstdint>
#include <limits>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

// In elements. The elements of a row are neighbours.
struct AttentionStrides {
  int64_t batch = 0, head = 0, row = 0;
};

// Strides, in elements, of what is given for every score; 0 repeats. From `keys` on it is minus infinity.
struct ScoreStrides {
  int64_t batch = 0, head = 0, query = 0, key = 0;
  int64_t keys = 0;
  int64_t batches = 0;  // entries after which those of the batch come again; 0: there are as many as in the batch
};

enum class AttentionMask : uint8_t { kNone, kBool, kInt32 };  // 0: the key takes no part

// Which scores an output gets, in the type of the queries.
enum class AttentionScores : uint8_t {
  kNone,
  kProducts,  // scale * q . k
  kCapped,
  kMasked,  // what softmax sees
  kProbabilities,
};

struct AttentionProblem {
  static constexpr int64_t kUnbounded = std::numeric_limits<int32_t>::max();

  DataType type = DataType::kFloat;     // of q, k, v, y, bias, sink and scores: one of kFloatTypes
  DataType compute = DataType::kFloat;  // of sums and softmax: float, or double
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  int64_t head_size = 0, v_head_size = 0;
  AttentionStrides q, k, v, y;
  double scale = 1, softcap = 0;  // 0: no cap

  // Query i stands at position i + past, or, from_end, so that the last query is the last key of its batch entry. It
  // sees keys from `left` before its position to `right` after it; causal is right = 0.
  int64_t past = 0;
  bool from_end = false;
  int64_t left = kUnbounded, right = kUnbounded;

  // The keys of a batch entry end at AttentionPointers::key_end + key_end_add and begin at key_begin.
  DataType key_end_type = DataType::kInt64;
  int64_t key_end_add = 0;

  AttentionMask mask = AttentionMask::kNone;
  ScoreStrides mask_strides;
  // Added where the mask is 0, and to keys outside of the range of keys. Minus infinity: they are not read.
  double masked = -std::numeric_limits<double>::infinity();
  bool bias = false;
  ScoreStrides bias_strides;
  AttentionScores scores = AttentionScores::kNone;
  bool zero_hidden_scores = false;  // kMasked shows 0 where a key takes no part, not minus infinity
  bool empty_is_nan = false;        // a query without any key gets NaN, as softmax alone gives, not zeros
};

// Keys and values in front of others, which lie elsewhere and are to be copied to k and v: they are read once for both.
struct AttentionPast {
  const void* k = nullptr;  // null: k and v have theirs
  const void* v = nullptr;
  void* to_k = nullptr;  // must be AttentionPointers::k and v
  void* to_v = nullptr;
  AttentionStrides k_strides, v_strides;
  int64_t rows = 0;  // of each head
};

struct AttentionPointers {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* y = nullptr;
  const void* mask = nullptr;
  const void* bias = nullptr;
  const void* key_end = nullptr;       // one a batch entry; null: all keys
  const int32_t* key_begin = nullptr;  // one a batch entry; null: 0
  const void* sink = nullptr;          // one a head: the score of a key without value; null: none
  bool zero_sink = false;              // such a key with score 0 for all heads
  void* scores = nullptr;              // [batch, heads, queries, keys]
  void* scratch = nullptr;             // of the plan's bytes
  AttentionPast past = {};             // where CopiesPast
};

enum class AttentionKernel : uint8_t {
  kTensorCores,  // 16-bit floats
  kPlain,        // one multiplication at a time
};

struct AttentionPlan {
  AttentionProblem problem;
  AttentionKernel kernel = AttentionKernel::kPlain;
  int warps = 1;        // of a block, 16 rows each
  int packed = 1;       // heads whose queries are rows of one matrix: all of a group, or 1
  int value_tile = 64;  // columns of v that a block handles: 64 or 128
  int depth = 64;       // columns of k that are in shared memory together, a multiple of 16
  int splits = 1;       // parts of the keys, joined by a second launch
  size_t shared_bytes = 0, scratch_bytes = 0;
  // Warps of a block of the kernel that has all keys of a head at once, which takes calls without a range of keys, with
  // aligned rows and nothing added but by key; the rest of the plan is for the others. 0: for all.
  int whole_rows_warps = 0;
  // Such calls go to the kernel of warpgroups first, where y has aligned rows too, and those whose bias for each score
  // has them.
  bool warpgroup_heads = false;
  // Warps that share a window of the kernel of short windows, which takes calls with a bias for each score and aligned
  // rows. 0: there is none for this problem.
  int window_warps = 0;
  bool few_queries = false;  // calls with aligned rows and nothing added but by key go to the kernel of few queries

  int64_t rows() const { return packed * problem.queries; }  // of a matrix
  int64_t depth_chunks() const { return (problem.head_size + depth - 1) / depth; }
};

// What a test or a measurement wants instead of the planner's choice; 0 leaves it to the planner.
struct AttentionChoice {
  int warps = 0, packed = 0, value_tile = 0, depth = 0, splits = 0, whole_rows_warps = 0, window_warps = 0;
  bool few_queries = false, warpgroup_heads = false;

  bool operator==(const AttentionChoice&) const = default;
};

// kNotSupported for head sizes that the device's shared memory does not hold, and for sizes from 2^31 on;
// kInvalidArgument where `forced` cannot be.
Result<AttentionPlan> PlanAttention(const AttentionProblem& problem, const device::DeviceInfo& device,
                                    const AttentionChoice& forced = {});

// The same problem in at most `bytes` of scratch memory: its keys in fewer parts.
void FitScratch(AttentionPlan& plan, size_t bytes);

// Whether the plan's kernel copies what `at.past` says, which others do not look at: one of few queries that walks over
// all those keys once.
bool CopiesPast(const AttentionPlan& plan, const AttentionPointers& at);

// One launch, two with splits. Nothing to compute launches nothing.
Status LaunchAttention(const AttentionPlan& plan, const AttentionPointers& at, device::Stream stream);

}  // namespace cudaep::kernels
