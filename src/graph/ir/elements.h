// Elements of small integer tensors, as far as they are known before a region runs: numbers, or products with symbols
// of dimensions.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

// number * symbols. A symbol stands for a number that is not negative.
struct Element {
  bool known = false;
  int64_t number = 0;
  std::vector<std::string> symbols = {};  // sorted

  bool is_number() const { return known && symbols.empty(); }
  bool not_negative() const { return known && number >= 0; }
  bool operator==(const Element&) const = default;
};
using Elements = std::vector<Element>;

inline Element Number(int64_t number) { return {.known = true, .number = number}; }

Element ElementOf(const Dim& dim);
Element Times(Element a, const Element& b);
// a / b where that is exact; unknown if not.
Element Quotient(Element a, const Element& b);

// Symbols for what no product says; the same text gets the same symbol.
class Symbols {
 public:
  Element Named(const std::string& expression);
  static std::string Text(const Element& element);
  static Dim DimOf(const Element& element);

 private:
  std::map<std::string, std::string> names_;
};

// The most elements of a tensor that is followed: dimensions of any tensor.
inline constexpr int64_t kMostElements = 16;

// Of the node's first output, from those of its inputs (null: not followed); nothing where it is not followed.
std::optional<Elements> FollowElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs,
                                       Symbols& symbols);

}  // namespace cudaep::graph::ir
