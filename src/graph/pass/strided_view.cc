#include "graph/pass/strided_view.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

namespace cudaep::graph {
namespace {

using ir::Element;

// Positions that a node takes along one axis.
struct Cutting {
  int64_t axis = 0, begin = 0, end = 0;
  bool drops_axis = false;
};

int64_t FromFront(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }

std::optional<Cutting> GatheredBy(const ir::Graph& graph, const Matcher& match, const ir::Node& node) {
  const auto position = PositionTakenBy(graph, match, node);
  if (!position || !position->is_there()) return std::nullopt;
  const int64_t at = FromFront(position->number, static_cast<size_t>(position->size));
  return Cutting{.axis = position->axis, .begin = at, .end = at + 1, .drops_axis = position->drops_axis};
}

std::optional<std::vector<Cutting>> SlicedBy(const ir::Graph& graph, const Matcher& match, const ir::Node& node) {
  const auto& dims = *graph.value(node.inputs[0]).dims;
  const auto starts = match.IntsOf(node, "starts", 1), ends = match.IntsOf(node, "ends", 2);
  auto axes = match.IntsOf(node, "axes", 3);
  const bool has_steps = node.inputs.size() > 4 && node.inputs[4] >= 0;
  const auto steps = has_steps ? match.IntsOf(node, "steps", 4) : std::vector<int64_t>{};
  if (!starts || !ends || starts->size() != ends->size() || !steps) return std::nullopt;
  if (std::ranges::any_of(*steps, [](int64_t step) { return step != 1; })) return std::nullopt;
  if (!axes) {
    if (node.inputs.size() > 3 && node.inputs[3] >= 0) return std::nullopt;
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (axes->size() != starts->size()) return std::nullopt;
  std::vector<Cutting> cuttings;
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = FromFront((*axes)[i], dims.size());
    const int64_t size =
        axis < 0 || axis >= static_cast<int64_t>(dims.size()) ? -1 : dims[static_cast<size_t>(axis)].size;
    const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
    if (size <= 0 || clamped((*starts)[i]) >= clamped((*ends)[i])) return std::nullopt;
    cuttings.push_back({.axis = axis, .begin = clamped((*starts)[i]), .end = clamped((*ends)[i])});
  }
  return cuttings;
}

std::optional<Cutting> SplitBy(const ir::Graph& graph, const ir::Node& node, int output) {
  const int64_t axis = FromFront(IntAttribute(node, "axis", 0), graph.value(node.inputs[0]).dims->size());
  Cutting cutting{.axis = axis};
  for (const int part : node.outputs) {
    const auto* const dims = part < 0 || !graph.value(part).dims ? nullptr : &*graph.value(part).dims;
    if (dims == nullptr || !(*dims)[static_cast<size_t>(axis)].known()) return std::nullopt;
    cutting.begin = cutting.end;
    cutting.end += (*dims)[static_cast<size_t>(axis)].size;
    if (part == output) return cutting;
  }
  return std::nullopt;
}

// What a node of known parts takes for one of its outputs.
std::optional<std::vector<Cutting>> CuttingsOf(const ir::Graph& graph, const Matcher& match, const ir::Node& node,
                                               int output) {
  if (!graph.value(node.inputs[0]).dims) return std::nullopt;
  if (node.Is("Slice")) return SlicedBy(graph, match, node);
  const auto one = node.Is("Gather") ? GatheredBy(graph, match, node) : SplitBy(graph, node, output);
  return one ? std::optional(std::vector<Cutting>{*one}) : std::nullopt;
}

bool IsCutting(const ir::Node& node) { return node.Is("Slice") || node.Is("Gather") || node.Is("Split"); }

std::vector<int> Joined(const std::vector<std::vector<int>>& lists) {
  std::vector<int> joined;
  for (const std::vector<int>& list : lists) joined.insert(joined.end(), list.begin(), list.end());
  return joined;
}

// Whether it pads by nothing, which is a copy.
bool PadsNothing(const Matcher& match, const ir::Node& node) {
  const auto pads = node.Is("Pad") ? match.IntsOf(node, "pads", 1) : std::nullopt;
  return pads && std::ranges::all_of(*pads, [](int64_t pad) { return pad == 0; });
}

bool KeepsOrder(const ir::Node& node) {
  return node.Is("Reshape") || node.Is("Unsqueeze") || node.Is("Squeeze") || node.Is("Flatten") || node.Is("Identity");
}

}  // namespace

std::optional<TakenPosition> PositionTakenBy(const ir::Graph& graph, const Matcher& match, const ir::Node& node) {
  const auto& dims = graph.value(node.inputs[0]).dims;
  const auto number = match.IntsOf(node, "", 1);
  const int index_rank = graph.value(node.inputs[1]).constant.rank;
  if (!dims || !number || number->size() != 1 || index_rank > 1) return std::nullopt;
  const int64_t axis = FromFront(IntAttribute(node, "axis", 0), dims->size());
  return TakenPosition{.axis = axis,
                       .size = (*dims)[static_cast<size_t>(axis)].size,
                       .number = number->front(),
                       .drops_axis = index_rank == 0};
}

bool IsViewNode(const ir::Graph& graph, const Matcher& match, const ir::Node& node) {
  if (node.on_host || node.inputs.empty() || node.inputs[0] < 0 || graph.value(node.inputs[0]).is_constant()) {
    return false;
  }
  if (!IsCutting(node)) return node.Is("Transpose") || KeepsOrder(node) || PadsNothing(match, node);
  return std::ranges::all_of(
      node.outputs, [&](int output) { return output >= 0 && CuttingsOf(graph, match, node, output).has_value(); });
}

bool Copies(const ir::Node& node) { return !KeepsOrder(node); }

std::optional<StridedView> StridedView::Whole(const ir::Graph& graph, int root) {
  const ir::Value& value = graph.value(root);
  if (!value.dims || value.kind != ops::ValueKind::kTensor || value.is_constant()) return std::nullopt;
  StridedView view;
  view.root_ = root;
  for (const ir::Dim& dim : *value.dims) {
    const Element size = ir::ElementOf(dim);
    if (!size.known || size.number <= 0) return std::nullopt;
    const int atom = static_cast<int>(view.sizes_.size());
    view.sizes_.push_back(size);
    view.dims_.push_back({atom});
    view.axes_.push_back({.atoms = {atom}});
  }
  return view;
}

bool StridedView::Apply(const ir::Graph& graph, const Matcher& match, const ir::Node& node, int output) {
  const auto& to = graph.value(output).dims;
  if (!to) return false;
  if (node.Is("Transpose")) return Transpose(match, node);
  if (node.Is("Squeeze") && Squeeze(match, node)) return dims_.size() == to->size();
  if (KeepsOrder(node) || PadsNothing(match, node)) return Reshape(*to);
  const auto cuttings = CuttingsOf(graph, match, node, output);
  if (!cuttings) return false;
  for (const Cutting& cutting : *cuttings) {
    if (!Cut(static_cast<size_t>(cutting.axis), cutting.begin, cutting.end)) return false;
    if (cutting.drops_axis) dims_.erase(dims_.begin() + cutting.axis);
  }
  return dims_.size() == to->size();
}

bool StridedView::is_part() const {
  return std::ranges::any_of(axes_, [](const Axis& axis) { return axis.end >= 0; });
}

std::vector<std::vector<int>> StridedView::dims() const {
  std::vector<std::vector<int>> dims = dims_;
  for (std::vector<int>& dim : dims) {
    const int first = dim.empty() ? -1 : dim.front();
    std::erase_if(dim, [&](int atom) { return IsOne(atom); });
    if (dim.empty() && first >= 0) dim.push_back(first);
  }
  return dims;
}

std::vector<std::vector<int>> StridedView::axes_atoms() const {
  const std::vector<int> order = Order();
  std::vector<std::vector<int>> atoms;
  for (const Axis& axis : axes_) {
    atoms.emplace_back();
    std::ranges::copy_if(axis.atoms, std::back_inserter(atoms.back()),
                         [&](int atom) { return std::ranges::find(order, atom) != order.end(); });
  }
  return atoms;
}

std::vector<int> StridedView::Order() const { return Joined(dims()); }

bool StridedView::is_turned() const { return Joined(axes_atoms()) != Order(); }

ir::Dim StridedView::DimOf(const std::vector<int>& atoms) const {
  Element product = ir::Number(1);
  for (const int atom : atoms) product = Times(product, sizes_[static_cast<size_t>(atom)]);
  return ir::Symbols::DimOf(product);
}

bool StridedView::IsOne(int atom) const { return sizes_[static_cast<size_t>(atom)] == ir::Number(1); }

bool StridedView::Transpose(const Matcher& match, const ir::Node& node) {
  const auto perm = match.IntsOf(node, "perm", node.inputs.size());
  if (!perm) {
    std::ranges::reverse(dims_);
    return true;
  }
  if (perm->size() != dims_.size()) return false;
  const auto from = dims_;
  for (size_t i = 0; i < perm->size(); ++i) dims_[i] = from[static_cast<size_t>((*perm)[i])];
  return true;
}

// Which dimensions go, where the node names them: of several of 1 not just any.
bool StridedView::Squeeze(const Matcher& match, const ir::Node& node) {
  auto axes = match.IntsOf(node, "axes", 1);
  if (!axes) return false;
  const auto rank = static_cast<int64_t>(dims_.size());
  for (int64_t& axis : *axes) axis = FromFront(axis, dims_.size());
  std::ranges::sort(*axes, std::greater<>());
  if (std::ranges::any_of(*axes, [&](int64_t axis) { return axis < 0 || axis >= rank; })) return false;
  for (const int64_t axis : *axes) dims_.erase(dims_.begin() + axis);
  return true;
}

// Each dimension takes whole atoms, and of the last one that it needs the outer part. A dimension of 1 is an atom of 1,
// so that heads and batches of one are turned as others are; such an atom beside others in a dimension is nothing.
bool StridedView::Reshape(const std::vector<ir::Dim>& dims) {
  std::vector<int> rest = Joined(dims_);
  std::ranges::reverse(rest);
  std::vector<std::vector<int>> made;
  for (const ir::Dim& dim : dims) {
    Element wanted = ir::ElementOf(dim);
    std::vector<int> atoms;
    if (!wanted.known || wanted.number <= 0) return false;
    if (wanted == ir::Number(1)) {
      if (rest.empty() || !IsOne(rest.back())) {
        atoms.push_back(AddOne(rest.empty() ? -1 : rest.back()));
      } else {
        atoms.push_back(rest.back());
        rest.pop_back();
      }
    }
    while (wanted != ir::Number(1)) {
      if (rest.empty()) return false;
      const int atom = rest.back();
      rest.pop_back();
      const Element size = sizes_[static_cast<size_t>(atom)], others = Quotient(wanted, size);
      atoms.push_back(atom);
      if (others.known) {
        wanted = others;
        continue;
      }
      const Element inner = Quotient(size, wanted);
      if (!inner.known) return false;
      // Atoms of `made` are whole, so that only this one becomes two there.
      rest.push_back(Split(atom, wanted, inner));
      break;
    }
    made.push_back(std::move(atoms));
  }
  dims_ = std::move(made);
  return std::ranges::all_of(rest, [&](int atom) { return IsOne(atom); });
}

int StridedView::AddOne(int next) {
  const int added = static_cast<int>(sizes_.size());
  sizes_.push_back(ir::Number(1));
  for (Axis& axis : axes_) {
    const auto found = std::ranges::find(axis.atoms, next);
    if (found == axis.atoms.end()) continue;
    axis.atoms.insert(found, added);
    return added;
  }
  if (axes_.empty()) axes_.emplace_back();
  axes_.back().atoms.push_back(added);
  return added;
}

int StridedView::Split(int atom, const Element& outer, const Element& inner) {
  const int added = static_cast<int>(sizes_.size());
  sizes_[static_cast<size_t>(atom)] = outer;
  sizes_.push_back(inner);
  for (Axis& axis : axes_) {
    const auto found = std::ranges::find(axis.atoms, atom);
    if (found != axis.atoms.end()) axis.atoms.insert(found + 1, added);
  }
  return added;
}

// Of a dimension that is the outermost atom of an axis: the axis loses whole multiples of what is inside of it.
bool StridedView::Cut(size_t dim, int64_t begin, int64_t end) {
  std::vector<int> atoms = dims_[dim];
  std::erase_if(atoms, [&](int atom) { return IsOne(atom); });
  if (atoms.empty()) return true;  // one position, of one
  if (begin == 0 && end == DimOf(atoms).size) return true;
  if (atoms.size() != 1) return false;
  Element& size = sizes_[static_cast<size_t>(atoms.front())];
  if (!size.is_number()) return false;
  for (Axis& axis : axes_) {
    const auto outer = std::ranges::find_if(axis.atoms, [&](int atom) { return !IsOne(atom); });
    if (outer == axis.atoms.end() || *outer != atoms.front()) continue;
    const int64_t inner = DimOf({outer + 1, axis.atoms.end()}).size;
    if (inner == kUnknownDim) return false;
    axis.begin += begin * inner;
    axis.end = axis.begin + (end - begin) * inner;
    size = ir::Number(end - begin);
    return true;
  }
  return false;
}

}  // namespace cudaep::graph
