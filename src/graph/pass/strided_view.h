// Values that are others in another order: what Reshape, Transpose, Slice and the like make of one tensor, as one step.
//
// The root's axes are products of atoms, which reshaping splits as finely as it must; a view's dimensions are products
// of the same atoms in another order. Parts are taken along the root's axes: what is cut out inside of one is no view.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/elements.h"
#include "graph/pass/match.h"

namespace cudaep::graph {

// The one position of an axis that a Gather takes by its number.
struct TakenPosition {
  int64_t axis = 0, size = 0;  // of the input; a size may be unknown
  int64_t number = 0;          // as the node has it: one below 0 counts from the end
  bool drops_axis = false;

  bool is_there() const { return size > 0 && number >= -size && number < size; }
};
// Nothing where it takes several, or nobody knows which.
std::optional<TakenPosition> PositionTakenBy(const ir::Graph& graph, const Matcher& match, const ir::Node& node);

// Whether the node's outputs are its first input's elements in another order, or a part of them that is known.
bool IsViewNode(const ir::Graph& graph, const Matcher& match, const ir::Node& node);
// Whether such a node copies them.
bool Copies(const ir::Node& node);

class StridedView {
 public:
  struct Axis {
    std::vector<int> atoms;
    int64_t begin = 0, end = -1;  // the part that is left; -1: all
  };

  // The whole of a value; nothing unless all dimensions are stated.
  static std::optional<StridedView> Whole(const ir::Graph& graph, int root);

  // What the node makes of it as `output`; false where that is no view, and this is not to be used any more.
  bool Apply(const ir::Graph& graph, const Matcher& match, const ir::Node& node, int output);

  bool is_part() const;
  bool is_turned() const;
  // How many nodes copy: one that takes the part, and one that turns it.
  int copies() const { return (is_part() ? 1 : 0) + (is_turned() ? 1 : 0); }

  int root() const { return root_; }
  const std::vector<Axis>& axes() const { return axes_; }  // of the root
  // Atoms of each dimension and, of these, of each axis; one of 1 only where a dimension has no other.
  std::vector<std::vector<int>> dims() const;
  std::vector<std::vector<int>> axes_atoms() const;
  std::vector<int> Order() const;  // of the view
  ir::Dim DimOf(const std::vector<int>& atoms) const;

 private:
  bool Reshape(const std::vector<ir::Dim>& dims);
  bool Squeeze(const Matcher& match, const ir::Node& node);
  bool Transpose(const Matcher& match, const ir::Node& node);
  bool Cut(size_t dim, int64_t begin, int64_t end);
  bool IsOne(int atom) const;
  // An atom of 1 in front of another one of the root's; -1: behind all.
  int AddOne(int next);
  // Makes `outer` and `inner` elements of an atom; the second is the new one.
  int Split(int atom, const ir::Element& outer, const ir::Element& inner);

  int root_ = -1;
  std::vector<ir::Element> sizes_;  // of atoms
  std::vector<Axis> axes_;
  std::vector<std::vector<int>> dims_;
};

// The fewest nodes that make the view of its root as `output`: a part, dimensions apart, their order, dimensions
// together. None for the root itself; nothing where the target of a Reshape cannot be told. Adds values to the graph.
std::optional<std::vector<ir::Node>> NodesOf(ir::Graph& graph, const StridedView& view, int output);

// The target of a Reshape between the two; nothing where it would take other operators to compute it.
std::optional<std::vector<int64_t>> ReshapeTarget(const std::vector<ir::Dim>& from, const std::vector<ir::Dim>& to);

}  // namespace cudaep::graph
