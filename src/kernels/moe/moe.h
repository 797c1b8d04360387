// Mixture of experts: each token chooses `top_k` of the experts, each expert is two products with an activation in
// between, and the token gets the sum of what its experts made, each times its weight.
//
//   LaunchMoeRouting   of each token the experts and weights, and of many tokens the order that groups their choices
//   LaunchMoeFew       few tokens: a warp has a pair of weight rows, read once for each token; the second adds up
//   LaunchMoeProduct   many tokens: tiles of an expert's rows, by tensor cores or plain
//   LaunchMoeSum       many tokens: adds up
//
// What a token chose is an entry: token * top_k + rank. Nothing is read back by the host: a product's grid has room for
// every way to share the entries out, and blocks find their expert in a list of tiles in device memory. Sums have one
// order each, so results are the same in every run, although the place of an entry among its expert's is not.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int64_t kMoeMostExperts = 2048;
// Tokens up to which weights may be read anew for each.
inline constexpr int64_t kMoeFewTokens = 8;

struct MoeRouting {
  DataType type = DataType::kFloat;  // of scores and weights
  int64_t tokens = 0, experts = 0;
  int top_k = 1;
  bool normalize = false;     // the weights of a token add up to 1
  bool sparse_mixer = false;  // top_k is 2; weights of SparseMixer (GRIN MoE, arXiv 2409.12136), jitter 0.01
  int tile_rows = 0;          // 0: no order and no tiles

  int64_t entries() const { return tokens * top_k; }
  // Of the list: tiles that are full, and a last one of each expert that has any.
  int64_t tiles() const;
};

// The entries [first, first + rows) of the order, all of one expert; unused ones have no rows.
struct MoeTile {
  int32_t expert, rows, first, reserved;
};

struct MoeRoutingPointers {
  const void* scores = nullptr;   // [tokens, experts]: their softmax chooses, and weighs
  const void* weights = nullptr;  // [tokens, experts]: weigh instead; null: none
  int32_t* expert = nullptr;      // [entries]
  float* weight = nullptr;        // [entries]; what is no finite number counts as 0
  int32_t* order = nullptr;       // [entries]: those of an expert follow each other
  MoeTile* tiles = nullptr;       // [tiles()]
};

// Of equal scores the one of the lower expert is larger.
Status LaunchMoeRouting(const MoeRouting& routing, const MoeRoutingPointers& at, device::Stream stream);

enum class MoeActivation : int8_t { kIdentity, kRelu, kRelu2, kGelu, kSilu, kSwiglu };  // kGelu: by tanh

// Where the weight rows of gate and linear part are that make one result together.
enum class MoeGate : int8_t {
  kNone,
  kInterleaved,  // side by side
  kHalves,       // n rows apart
  kSeparate,     // in the second matrix
};

// Of each entry i, with its expert e: y[i][j] = activation(sum over k of a[row of i][k] * weight[e][j][k] +
// bias[e][j]).
struct MoeProduct {
  DataType type = DataType::kFloat;  // of everything but packed weights and weights of entries
  int64_t tokens = 0, experts = 0;
  int top_k = 1;
  int64_t n = 0, k = 0;
  bool second = false;  // a has rows of entries (in the order, for LaunchMoeProduct), not of tokens
  MoeGate gate = MoeGate::kNone;
  MoeActivation activation = MoeActivation::kIdentity;
  float alpha = 1, beta = 0, limit = 0;  // of kSwiglu; limit: not below 0, or infinite
  bool limit_after = false;              // the activated gate is limited, not the gate
  int bits = 0;                          // 2, 4 or 8 bits of a weight; 0: weights of the type
  int64_t block = 0;                     // elements along k that share a scale: a power of two, at least 16; 0: all

  int64_t entries() const { return tokens * top_k; }
  int parts() const { return gate == MoeGate::kNone ? 1 : 2; }
  int64_t rows() const { return n * parts(); }  // of weights of an expert
  int64_t blocks() const { return block == 0 ? 1 : k / block; }
  int64_t weight_row_bytes() const;
};

// Matrices of weights [experts, rows, k], packed: the first element in the lowest bits. The second one is of kSeparate.
struct MoeWeights {
  const void* weight[2] = {};
  const void* scale[2] = {};  // [experts, rows, blocks]
  const void* zero[2] = {};   // packed [experts, rows, blocks], or [experts, rows] without blocks, each row (expert)
                              // beginning with a byte; null: 2^(bits - 1)
  const void* bias[2] = {};   // [experts, rows]; null: none
};

struct MoeProductPointers {
  const void* a = nullptr;
  MoeWeights weights;
  const int32_t* expert = nullptr;      // of the few
  const float* entry_weight = nullptr;  // of the few, second
  const int32_t* order = nullptr;       // of the many
  const MoeTile* tiles = nullptr;       // of the many
  void* y = nullptr;                    // of the few [entries, n], second: [tokens, n]
                                        // of the many [entries, n] in the order, second: by entry
};

// Whether LaunchMoeFew is the faster one: not for weights of 16-bit floats that tensor cores take, which tiles read at
// 2.6 TB/s where it reads them at 1.1 (one token, H200).
bool MoeIsFew(const MoeProduct& first, const MoeProduct& second, const device::DeviceInfo& device);
Status LaunchMoeFew(const MoeProduct& product, const MoeProductPointers& at, device::Stream stream);

// Rows of a tile, 64 or 128, by how many an expert may expect. Both products of an operator take the same.
int MoeTileRows(const MoeProduct& product, const device::DeviceInfo& device);
// By tensor cores: 16-bit floats in packs of eight, from 8.0 on; all else by a plain kernel.
Status LaunchMoeProduct(const MoeProduct& product, const MoeProductPointers& at, int tile_rows, int64_t tiles,
                        const device::DeviceInfo& device, device::Stream stream);

// y[tokens, n] = sum over a token's entries of weight[entry] * x[entry, n].
Status LaunchMoeSum(const MoeProduct& product, const void* x, const float* entry_weight, void* y,
                    device::Stream stream);

}  // namespace cudaep::kernels
