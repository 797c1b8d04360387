#include <algorithm>
#include <functional>
#include <numeric>

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
  auto axes = AxesOf(node, 1);
  if (from && !axes && (node.inputs.size() < 2 || node.inputs[1] < 0)) {
    if (!std::ranges::all_of(*from, &Dim::known)) return std::nullopt;
    axes.emplace();
    for (size_t i = 0; i < from->size(); ++i) {
      if ((*from)[i].size == 1) axes->push_back(static_cast<int64_t>(i));
    }
  }
  if (!from || !axes) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  DimList dims;
  for (int64_t i = 0; i < rank; ++i) {
    const bool gone = std::ranges::any_of(*axes, [&](int64_t axis) { return (axis < 0 ? axis + rank : axis) == i; });
    if (!gone) dims.push_back((*from)[static_cast<size_t>(i)]);
  }
  return dims;
}

Dim DimRules::AddDims(const Dim& a, const Dim& b) { return Symbols::DimOf(symbols_.Sum(ElementOf(a), ElementOf(b))); }

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
      } else {
        dim = AddDims(dim, (*part)[d]);
      }
    }
  }
  return dims;
}

Elements DimRules::GivenNumbers(const Node& node, const char* attribute, size_t input) const {
  if (const auto* const listed = FindAttribute<std::vector<int64_t>>(node, attribute)) {
    Elements elements;
    for (const int64_t number : *listed) elements.push_back(Number(number));
    return elements;
  }
  const Elements* const given = input < node.inputs.size() ? ElementsOf(node.inputs[input]) : nullptr;
  return given != nullptr ? *given : Elements{};
}

MaybeDims DimRules::Sliced(const Node& node) {
  MaybeDims dims = Stated(node, 0);
  if (!dims) return std::nullopt;
  const auto rank = static_cast<int64_t>(dims->size());
  auto axes = AxesOf(node, 3);
  if (!axes && (node.inputs.size() < 4 || node.inputs[3] < 0)) {  // the first ones
    axes.emplace(GivenNumbers(node, "starts", 1).size());
    std::iota(axes->begin(), axes->end(), 0);
    if (axes->empty()) axes.reset();
  }
  if (!axes) return DimList(dims->size());
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t at = (*axes)[i] < 0 ? (*axes)[i] + rank : (*axes)[i];
    if (at < 0 || at >= rank) return std::nullopt;
    Dim& dim = (*dims)[static_cast<size_t>(at)];
    dim = SlicedDim(node, i, dim);
  }
  return dims;
}

Dim DimRules::SlicedDim(const Node& node, size_t i, const Dim& whole) {
  const auto element = [&](const char* attribute, size_t input) {
    const Elements all = GivenNumbers(node, attribute, input);
    return i < all.size() ? all[i] : Element{};
  };
  const Element start = element("starts", 1), end = element("ends", 2);
  const Element step = node.inputs.size() > 4 && node.inputs[4] >= 0 ? element("steps", 4) : Number(1);
  const bool has_steps = !(step == Number(1));
  if (start.is_number() && end.is_number()) {
    if (whole.known() && step.is_number() && step.number != 0) {
      return {.size = ops::SliceRangeOf(whole.size, start.number, end.number, step.number).count};
    }
    constexpr int64_t kBehindAll = int64_t{1} << 40;  // exporters write the largest number for the end
    const bool to_end = end.number >= kBehindAll;
    if (!has_steps && start.number >= 0 && start.number < kBehindAll && (to_end || end.number < 0)) {
      const int64_t behind = to_end ? 0 : std::max(end.number, -kBehindAll);
      return Symbols::DimOf(symbols_.Floor(ElementOf(whole), behind - start.number, 1));  // where that is there
    }
  }
  if (has_steps || !(start == Number(0)) || !end.not_negative() || end.is_number() || whole.size < 1) return {};
  const Dim dim = Symbols::DimOf(symbols_.Named("at most", whole.size, end));
  wanted_[dim.symbol] = Symbols::Text(end);
  return dim;
}

MaybeDims DimRules::Reduced(const Node& node) const {
  const MaybeDims& from = Stated(node, 0);
  if (!from) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  const bool keeps = IntAttribute(node, "keepdims", 1) != 0;
  std::optional<std::vector<int64_t>> axes;
  if (node.op_type.starts_with("Arg")) {
    axes = {IntAttribute(node, "axis", 0)};
  } else if (node.inputs.size() < 2 || node.inputs[1] < 0) {
    axes = AttributeOr(node, "axes", std::vector<int64_t>{});
  } else {
    axes = AxesOf(node, 1);
  }
  if (!axes) return std::nullopt;
  if (axes->empty() && IntAttribute(node, "noop_with_empty_axes", 0) != 0) return from;
  std::vector<bool> goes(from->size(), axes->empty());
  for (const int64_t axis : *axes) {
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank) return std::nullopt;
    goes[static_cast<size_t>(at)] = true;
  }
  DimList dims;
  for (size_t i = 0; i < from->size(); ++i) {
    if (!goes[i] || keeps) dims.push_back(goes[i] ? Dim{.size = 1} : (*from)[i]);
  }
  return dims;
}

MaybeDims DimRules::Selected(const Node& node) const {
  MaybeDims dims = Stated(node, 0);
  const int64_t axis = dims ? AxisOf(node, dims->size(), -1) : -1;
  if (axis < 0) return std::nullopt;
  const Elements* const given = node.inputs.size() > 1 ? ElementsOf(node.inputs[1]) : nullptr;
  Dim& dim = (*dims)[static_cast<size_t>(axis)];
  dim = given != nullptr && given->size() == 1 ? Symbols::DimOf(given->front()) : SizeAttribute(node, "k");
  return dims;
}

MaybeDims DimRules::Encoded(const Node& node) const {
  MaybeDims dims = Stated(node, 0);
  if (!dims) return std::nullopt;
  const int64_t axis = AxisOf(node, dims->size() + 1, -1);
  if (axis < 0) return std::nullopt;
  const Elements* const depth = ElementsOf(node.inputs[1]);
  dims->insert(dims->begin() + axis, depth != nullptr && depth->size() == 1 ? Symbols::DimOf(depth->front()) : Dim{});
  return dims;
}

}  // namespace cudaep::graph::ir
