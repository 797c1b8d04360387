// Elements of small integer tensors, as far as they are known before a region runs: numbers, or products with symbols
// of dimensions.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "core/strings.h"
#include "graph/ir/graph.h"

namespace cudaep::graph::ir {

// number * symbols. A symbol stands for a number that is not negative, unless it begins with '~'. It has no '*' and
// begins with no digit, so that a product is written as one text: 2*batch*rows.
inline constexpr char kSigned = '~';
struct Element {
  bool known = false;
  int64_t number = 0;
  std::vector<std::string> symbols = {};  // sorted

  bool is_number() const { return known && symbols.empty(); }
  bool not_negative() const {
    const auto is_signed = [](const std::string& symbol) { return symbol.starts_with(kSigned); };
    return known && number >= 0 && std::ranges::none_of(symbols, is_signed);
  }
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
  // a + b, in either order.
  Element Sum(const Element& a, const Element& b);
  // The largest whole number up to (x + offset) / divisor, a divisor above 0: the same for all ways there, through
  // several such steps. Where that is not certain to be no negative number, `exists` says that it is none in a Run that
  // gets as far, as the count of windows is (of an axis without any element, which has none, it may be off).
  Element Floor(const Element& x, int64_t offset, int64_t divisor, bool exists = false);
  // Whether since the last call something turned out to exist that was asked for before.
  bool TakeNews() { return std::exchange(has_news_, false); }
  static std::string Text(const Element& element);
  static Dim DimOf(const Element& element);

 private:
  static std::string TextOf(const Element& element) { return Text(element); }
  static std::string TextOf(int64_t number) { return StrCat(number); }
  Element Named(const std::string& expression);

  struct Floored {
    Element x;
    int64_t offset, divisor;
    bool not_negative;
  };

  std::map<std::string, std::string> names_;
  std::map<std::string, Floored> floors_;  // by symbol, without kSigned
  bool has_news_ = false;
};

// The most elements of a tensor that is followed: dimensions of any tensor.
inline constexpr int64_t kMostElements = 16;

// Of the node's first output, from those of its inputs (null: not followed); nothing where it is not followed. The
// output is of int64, int32 or bool, and has up to two dimensions.
std::optional<Elements> FollowElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs,
                                       Symbols& symbols);

}  // namespace cudaep::graph::ir
