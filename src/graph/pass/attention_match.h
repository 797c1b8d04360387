// Attention as exporters spell it out: softmax(terms(scale * Q K^T)) V (attention_scores.h), queries, keys and values
// as [batch, heads, rows, size], or with the heads in one dimension with the batch.
#pragma once

#include <optional>
#include <string>

#include "graph/pass/attention_scores.h"
#include "graph/pass/rewrite.h"

namespace cudaep::graph {

struct AttentionCore {
  // The node whose output is [batch, heads, queries, size]: the product with V, or the Reshape that takes its heads
  // apart. Where `one_head`, all values are [batches, rows, size], and the product's is [batches, queries, size].
  int result = -1;
  bool one_head = false;
  int q = -1, v = -1;
  int keys = -1;                      // as the product reads them: [batch, heads, size, rows]
  bool keys_are_rows = false;         // or [batch, heads, rows, size]
  int k = -1;                         // [batch, heads, rows, size]; -1: only `k_elsewhere` exists
  int k_elsewhere = -1;               // that with its dimensions in another order
  std::vector<int64_t> k_order = {};  // which Transpose makes it of `k_elsewhere`
  std::vector<ScoreTerm> terms = {};  // of which a mask is to be made: more than the one below
  int split = -1;                     // a node like which those that are flat become [batch, heads, queries, keys]
  int mask = -1;                      // added to the scores; -1: none
  // [1, windows, heads or 1, queries or 1, keys or 1], added to the scores as [batch / windows, windows, heads,
  // queries, keys], besides a mask of one batch entry; -1: none.
  int window_mask = -1;
  bool mask_fits = true;  // whether its dimensions are stated to broadcast to those of the scores
  bool rows_fit = false;  // whether keys and values are stated to have as many rows
  bool guarded = false;   // NaN of rows without any key become zeros
  double scale = 1, softcap = 0;
  int64_t heads = 0, kv_heads = 0;  // several heads of queries may share one of keys and values
  int64_t head_size = 0, v_head_size = 0;
};

// Of the MatMul that multiplies with V; nothing where there is none. Near misses are noted.
std::optional<AttentionCore> MatchAttention(const Rewriter& rewrite, int index);

// [batch, heads, queries, keys], or [batches, queries, keys].
std::vector<ir::Dim> ScoreDims(const ir::Graph& graph, const AttentionCore& core);

// Whether the mask of ONNX Attention, if it has one, broadcasts to the scores as elsewhere: since version 24 keys that
// it has no column for are hidden.
bool MaskBroadcasts(const ir::Graph& graph, const ir::Node& attention);

}  // namespace cudaep::graph
