#include <algorithm>
#include <map>

#include "graph/pass/layout.h"
#include "graph/pass/strided_view.h"

namespace cudaep::graph {
namespace {

using Dims = std::vector<ir::Dim>;

bool Same(const Dims& a, const Dims& b) {
  return std::ranges::equal(a, b, [](const ir::Dim& x, const ir::Dim& y) { return x.Equals(y); });
}

// Nodes one after the other, each of which makes a new value of the one before.
class Path {
 public:
  Path(ir::Graph& graph, const StridedView& view)
      : graph_(graph), view_(view), name_(graph.value(view.root()).name), at_(view.root()) {}

  const Dims& dims() const { return *graph_.value(at_).dims; }

  void TakePart() {
    std::vector<int64_t> starts, ends, axes;
    Dims dims = this->dims();
    for (size_t i = 0; i < dims.size(); ++i) {
      const StridedView::Axis& axis = view_.axes()[i];
      if (axis.end < 0) continue;
      starts.push_back(axis.begin), ends.push_back(axis.end), axes.push_back(static_cast<int64_t>(i));
      dims[i] = {.size = axis.end - axis.begin};
    }
    Add("Slice", 13, {Ints(starts), Ints(ends), Ints(axes)}, {}, std::move(dims));
  }

  bool Reshape(const Dims& to) {
    if (Same(dims(), to)) return true;
    const auto target = ReshapeTarget(dims(), to);
    if (target) Add("Reshape", 13, {Ints(*target)}, {}, to);
    return target.has_value();
  }

  void Turn(const std::vector<int64_t>& perm) {
    Dims turned = Ordered(dims(), perm);
    Add("Transpose", 13, {}, {{"perm", perm}}, std::move(turned));
  }

  std::vector<ir::Node> Take(int output) {
    if (!nodes_.empty()) nodes_.back().outputs = {output};
    return std::move(nodes_);
  }

 private:
  int Ints(const std::vector<int64_t>& values) { return AddInts(graph_, name_, values); }
  void Add(const char* op, int version, std::vector<int> others, ops::Attributes attributes, Dims dims) {
    ir::Node node{.name = name_, .op_type = op, .since_version = version, .attributes = std::move(attributes)};
    node.inputs = {at_};
    node.inputs.insert(node.inputs.end(), others.begin(), others.end());
    at_ = graph_.AddValue({.name = name_, .type = graph_.value(view_.root()).type, .dims = std::move(dims)});
    node.outputs = {at_};
    nodes_.push_back(std::move(node));
  }

  ir::Graph& graph_;
  const StridedView& view_;
  const std::string name_;
  int at_;
  std::vector<ir::Node> nodes_;
};

// The atoms that a Transpose moves together: neighbours in the root's axis and in a dimension of the view.
std::vector<std::vector<int>> MovedTogether(const StridedView& view) {
  std::map<int, int> next;  // in the same dimension
  for (const std::vector<int>& dim : view.dims()) {
    for (size_t i = 1; i < dim.size(); ++i) next[dim[i - 1]] = dim[i];
  }
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& atoms : view.axes_atoms()) {
    for (size_t i = 0; i < atoms.size(); ++i) {
      const int atom = atoms[i];
      const auto found = i == 0 ? next.end() : next.find(atoms[i - 1]);
      const bool follows = found != next.end() && found->second == atom;
      if (follows) {
        groups.back().push_back(atom);
      } else {
        groups.push_back({atom});
      }
    }
  }
  return groups;
}

// Of the groups, as they lie in the view.
std::vector<int64_t> PermOf(const StridedView& view, const std::vector<std::vector<int>>& groups) {
  std::vector<int64_t> perm;
  for (const int atom : view.Order()) {
    const auto found = std::ranges::find_if(groups, [&](const std::vector<int>& g) { return g.front() == atom; });
    if (found != groups.end()) perm.push_back(found - groups.begin());
  }
  return perm;
}

}  // namespace

std::optional<std::vector<int64_t>> ReshapeTarget(const Dims& from, const Dims& to) {
  std::vector<int64_t> target;
  bool is_open = false, copies = false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].size == 0) return std::nullopt;  // Reshape would copy the dimension it finds there
    if (to[i].known()) {
      target.push_back(to[i].size);
    } else if (i < from.size() && to[i].Equals(from[i])) {
      target.push_back(0);
      copies = true;
    } else {
      if (is_open) return std::nullopt;
      target.push_back(-1);
      is_open = true;
    }
  }
  // -1 beside a dimension that may be zero is an error.
  return is_open && copies ? std::nullopt : std::optional(target);
}

std::optional<std::vector<ir::Node>> NodesOf(ir::Graph& graph, const StridedView& view, int output) {
  const Dims stated = *graph.value(output).dims;
  Path path(graph, view);
  if (view.is_part()) path.TakePart();
  if (view.is_turned()) {
    const std::vector<std::vector<int>> groups = MovedTogether(view);
    Dims apart;
    for (const std::vector<int>& group : groups) apart.push_back(view.DimOf(group));
    if (!path.Reshape(apart)) return std::nullopt;
    path.Turn(PermOf(view, groups));
  }
  if (!path.Reshape(stated)) return std::nullopt;
  return path.Take(output);
}

}  // namespace cudaep::graph
