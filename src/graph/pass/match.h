// What passes ask of a graph when they look for a pattern.
//
// A pass replaces the last node of a pattern by one that does all of it; what nobody reads then goes
// (RemoveDeadNodes). So a node may be part of a pattern though others read it too, but then it is not saved: IsPrivate.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/ir/attributes.h"

namespace cudaep::graph {

// A tree of products as one: constant * values[0] * values[1] * ...
struct ProductOf {
  double constant = 1;
  std::vector<int> values = {};  // one that comes twice is there twice

  // Whether it is constant * a * b, in any order.
  bool Is(double wanted, std::span<const int> wanted_values, double tolerance) const;
};

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph) : graph_(graph), uses_(graph) {}

  // The node on the device that makes the value; null: none, or of another operator.
  const ir::Node* Maker(int value) const;
  const ir::Node* Maker(int value, std::string_view op) const;
  const ir::Uses& uses() const { return uses_; }
  int MakerIndex(int value) const { return uses_.producer(value); }
  // Whether one node reads the value, once, apart from those that ask for its dimensions, for which nothing is
  // computed; and it does not leave.
  bool IsPrivate(int value) const { return OnlyReader(value) >= 0; }
  int OnlyReader(int value) const;
  // Whether nobody else needs the value, not even its dimensions.
  bool IsReadOnce(int value) const { return uses_.OnlyReader(value) >= 0; }

  // The one element of a constant of floats, whatever its rank.
  std::optional<double> Scalar(int value) const;
  bool IsScalar(int value, double wanted) const;
  // The elements of an attribute, or of a constant input where later versions have it.
  std::optional<std::vector<int64_t>> IntsOf(const ir::Node& node, const char* attribute, size_t input) const;

  // The operand of a node of two inputs that is not `value`; -1: there is none, or both are.
  static int Other(const ir::Node& node, int value);
  // An Add of a scalar: the other operand; -1: it is none.
  int PlusScalar(int value, double* scalar) const;

  // Through Mul, Div by a scalar and Pow with 2 or 3, as far as what lies between is private.
  ProductOf Factors(int value) const;
  // The same of one value that has the product's dimensions (a constant may have more); or 1 * the value.
  ProductOf Scaled(int value) const;

  // How far constants of a value's type may be from the number they stand for, as a share of it.
  double Tolerance(int value) const;

 private:
  void Multiply(int value, bool is_root, ProductOf& product) const;

  const ir::Graph& graph_;
  const ir::Uses uses_;
};

using ir::FloatAttribute;
using ir::IntAttribute;

// -1: the node leaves it out.
inline int InputOf(const ir::Node& node, size_t index) { return index < node.inputs.size() ? node.inputs[index] : -1; }

inline bool IsLastAxis(int64_t axis, size_t rank) { return axis == -1 || axis == static_cast<int64_t>(rank) - 1; }

// Whether the constant or value has one dimension, of the size of the last of `of`.
bool IsVectorOfLast(const ir::Graph& graph, int value, int of);

}  // namespace cudaep::graph
