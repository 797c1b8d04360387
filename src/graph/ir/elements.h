// Elements of small integer tensors, as far as they are known before a region runs: numbers, or products with symbols
// of dimensions.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "core/strings.h"
#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

// number * symbols. A symbol stands for a number that is not negative. It has no '*' and begins with no digit, so that
// a product is written as one text: 2*batch*rows.
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

// The symbol for a name of the model's: the name, unless that could be taken for a product or for a symbol of ours.
std::string SymbolOf(std::string_view name);

Element ElementOf(const Dim& dim);
Element Times(Element a, const Element& b);
// a / b where that is exact; unknown if not.
Element Quotient(Element a, const Element& b);

// Symbols for what no product says; the same operation on the same operands gets the same symbol.
class Symbols {
 public:
  template <class... Operands>
  Element Named(const char* operation, const Operands&... operands) {
    std::string expression = operation;
    (expression.append("**").append(TextOf(operands)), ...);  // which no text of an element has
    return Named(expression);
  }
  // a + b where that is no product, in either order.
  Element Sum(const Element& a, const Element& b) {
    return Text(b) < Text(a) ? Named("Add", b, a) : Named("Add", a, b);
  }
  static std::string Text(const Element& element);
  static Dim DimOf(const Element& element);

 private:
  static std::string TextOf(const Element& element) { return Text(element); }
  static std::string TextOf(int64_t number) { return StrCat(number); }
  Element Named(const std::string& expression);

  std::map<std::string, std::string> names_;
};

// The most elements of a tensor that is followed: dimensions of any tensor.
inline constexpr int64_t kMostElements = 16;

// Of the node's first output, from those of its inputs (null: not followed); nothing where it is not followed. The
// output is of int64, int32 or bool, and has up to two dimensions.
std::optional<Elements> FollowElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs,
                                       Symbols& symbols);

}  // namespace cudaep::graph::ir
