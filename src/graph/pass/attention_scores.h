// The scores of attention as exporters spell them, from what softmax reads back to the product of queries and keys.
#pragma once

#include <optional>
#include <vector>

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// What is done to scaled scores, one element at a time.
struct ScoreTerm {
  enum class Kind : uint8_t {
    kAdded,   // score + value
    kHidden,  // Where(value, lowest, score)
    kShown,   // Where(value, score, lowest)
    kRaised,  // Max(score, lowest)
  };
  Kind kind = Kind::kAdded;
  int value = -1;
  int lowest = -1;    // a constant that no score matters beside
  int scores = -1;    // what it is done to
  bool flat = false;  // done to scores of [batch * heads, queries, keys]; a mask takes its heads apart (split)
};

// terms(softcap * tanh(scale * product / softcap)), without a softcap terms(scale * product).
struct AttentionScores {
  int product = -1;            // [batch, heads, queries, keys], or [batch * heads, queries, keys]
  int q = -1, keys = -1;       // as the product reads them
  bool keys_are_rows = false;  // [.., keys, size], not [.., size, keys]
  int split = -1;              // a node that takes the heads of flat scores apart
  double scale = 1, softcap = 0;
  std::vector<ScoreTerm> terms = {};  // in the order in which they are done
};

class ScoresMatch {
 public:
  ScoresMatch(const ir::Graph& graph, const Matcher& match) : graph_(graph), match_(match) {}

  std::optional<AttentionScores> Match(int scores) const;
  // scale * Q K^T, the scale on either side of the product, and nothing else.
  std::optional<AttentionScores> MatchProduct(int scores) const;
  // Whether a product is what is left of the scores without what is done to them element by element.
  bool IsOfProduct(int scores) const;
  // Through casts between floats, which attention needs none of, and through views of heads in one dimension with the
  // batch and apart from it: *split is a node that took them apart.
  int Bare(int value, int* split = nullptr) const;

 private:
  bool Peel(int scores, int depth, AttentionScores& found) const;
  bool PeelBare(int scores, int depth, AttentionScores& found) const;
  bool PeelOne(const ir::Node& node, size_t operand, ScoreTerm term, int depth, AttentionScores& found) const;
  int Unscaled(int value, double& scale) const;
  bool IsLowest(int value) const;

  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace cudaep::graph
