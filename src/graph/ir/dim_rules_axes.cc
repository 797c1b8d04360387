#include <algorithm>
#include <functional>

#include "graph/ir/attributes.h"
#include "graph/ir/dim_rules.h"
#include "ops/movement/slice_ranges.h"

namespace cudaep::graph::ir {

int64_t DimRules::AxisOf(const Node& node, size_t rank, int64_t fallback) {
  const int64_t axis = IntAttribute(node, "axis", fallback);
  const int64_t at = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  return at < static_cast<int64_t>(rank) ? at : -1;
}

MaybeDims DimRules::Gathered(const Node& node) const {
  const MaybeDims &data = Stated(node, 0), &indices = Stated(node, 1);
  if (!data || !indices) return std::nullopt;
  const int64_t axis = AxisOf(node, data->size(), 0);
  if (axis < 0) return std::nullopt;
  DimList dims(data->begin(), data->begin() + axis);
  dims.insert(dims.end(), indices->begin(), indices->end());
  dims.insert(dims.end(), data->begin() + axis + 1, data->end());
  return dims;
}

MaybeDims DimRules::GatheredAt(const Node& node) const {
  const MaybeDims &data = Stated(node, 0), &indices = Stated(node, 1);
  if (IntAttribute(node, "batch_dims", 0) != 0) return std::nullopt;
  if (!data || !indices || indices->empty() || !indices->back().known()) return std::nullopt;
  if (indices->back().size > static_cast<int64_t>(data->size())) return std::nullopt;
  DimList dims(indices->begin(), indices->end() - 1);
  dims.insert(dims.end(), data->begin() + indices->back().size, data->end());
  return dims;
}

MaybeDims DimRules::Counted(const Node& node) {
  const auto is = [&](size_t input, int64_t number) {
    const Elements* const elements = ElementsOf(node.inputs[input]);
    return elements != nullptr && *elements == Elements{Number(number)};
  };
  const Elements* const limit = ElementsOf(node.inputs[1]);
  if (limit == nullptr || limit->size() != 1 || !is(0, 0) || !is(2, 1)) return std::nullopt;
  return DimList{Symbols::DimOf(limit->front())};
}

std::optional<std::vector<int64_t>> DimRules::AxesOf(const Node& node, size_t input) const {
  if (const auto* const found = FindAttribute<std::vector<int64_t>>(node, "axes")) return *found;
  const Elements* const given = input < node.inputs.size() ? ElementsOf(node.inputs[input]) : nullptr;
  if (given == nullptr || !std::all_of(given->begin(), given->end(), std::mem_fn(&Element::is_number))) {
    return std::nullopt;
  }
  std::vector<int64_t> axes;
  for (const Element& axis : *given) axes.push_back(axis.number);
  return axes;
}

MaybeDims DimRules::Unsqueezed(const Node& node) const {
  const MaybeDims& from = Stated(node, 0);
  const auto axes = AxesOf(node, 1);
  if (!from || !axes) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size() + axes->size());
  DimList dims;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool added = std::ranges::any_of(*axes, [&](int64_t axis) { return (axis < 0 ? axis + rank : axis) == i; });
    if (!added && next == from->size()) return std::nullopt;
    dims.push_back(added ? Dim{.size = 1} : (*from)[next++]);
  }
  return dims;
}

MaybeDims DimRules::Squeezed(const Node& node) const {
  const MaybeDims& from = Stated(node, 0);
  const auto axes = AxesOf(node, 1);
  if (!from || !axes) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  DimList dims;
  for (int64_t i = 0; i < rank; ++i) {
    const bool gone = std::ranges::any_of(*axes, [&](int64_t axis) { return (axis < 0 ? axis + rank : axis) == i; });
    if (!gone) dims.push_back((*from)[static_cast<size_t>(i)]);
  }
  return dims;
}

MaybeDims DimRules::Joined(const Node& node) {
  MaybeDims dims = Stated(node, 0);
  if (!dims) return std::nullopt;
  const int64_t axis = AxisOf(node, dims->size(), 0);
  if (axis < 0) return std::nullopt;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const MaybeDims& part = Stated(node, i);
    if (!part || part->size() != dims->size()) return std::nullopt;
    for (size_t d = 0; d < dims->size(); ++d) {
      Dim& dim = (*dims)[d];
      if (static_cast<int64_t>(d) != axis) {
        if (!dim.known()) dim = (*part)[d].known() || dim.symbol.empty() ? (*part)[d] : dim;
      } else if (dim.known() && (*part)[d].known()) {
        dim.size += (*part)[d].size;
      } else {
        dim = Symbols::DimOf(symbols_.Sum(ElementOf(dim), ElementOf((*part)[d])));
      }
    }
  }
  return dims;
}

MaybeDims DimRules::Sliced(const Node& node) {
  MaybeDims dims = Stated(node, 0);
  const auto axes = AxesOf(node, 3);
  if (!dims || !axes) return std::nullopt;
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t at = (*axes)[i] < 0 ? (*axes)[i] + static_cast<int64_t>(dims->size()) : (*axes)[i];
    if (at < 0 || at >= static_cast<int64_t>(dims->size())) return std::nullopt;
    Dim& dim = (*dims)[static_cast<size_t>(at)];
    dim = SlicedDim(node, i, dim);
  }
  return dims;
}

Dim DimRules::SlicedDim(const Node& node, size_t i, const Dim& whole) {
  const auto element = [&](size_t input) -> Element {
    const Elements* const all = input < node.inputs.size() ? ElementsOf(node.inputs[input]) : nullptr;
    return all != nullptr && i < all->size() ? (*all)[i] : Element{};
  };
  const Element start = element(1), end = element(2), step = node.inputs.size() > 4 ? element(4) : Number(1);
  const bool has_steps = !(step == Number(1));
  if (start.is_number() && end.is_number()) {
    if (whole.known() && step.is_number() && step.number != 0) {
      return {.size = ops::SliceRangeOf(whole.size, start.number, end.number, step.number).count};
    }
    constexpr int64_t kBehindAll = int64_t{1} << 40;  // exporters write the largest number for the end
    if (!has_steps && start.number == 0 && end.number >= kBehindAll) return whole;
  }
  if (has_steps || !(start == Number(0)) || !end.not_negative() || end.is_number() || whole.size < 1) return {};
  const Dim dim = Symbols::DimOf(symbols_.Named("at most", whole.size, end));
  wanted_[dim.symbol] = Symbols::Text(end);
  return dim;
}

MaybeDims DimRules::Reduced(const Node& node) const {
  MaybeDims dims = Stated(node, 0);
  const auto axes = AxesOf(node, 1);
  if (IntAttribute(node, "keepdims", 1) == 0) return std::nullopt;
  if (!dims || !axes || axes->empty()) return std::nullopt;
  for (const int64_t axis : *axes) {
    const int64_t at = axis < 0 ? axis + static_cast<int64_t>(dims->size()) : axis;
    if (at < 0 || at >= static_cast<int64_t>(dims->size())) return std::nullopt;
    (*dims)[static_cast<size_t>(at)] = {.size = 1};
  }
  return dims;
}

}  // namespace cudaep::graph::ir
