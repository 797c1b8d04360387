// Operators that cut tensors into parts, repeat them, or fold their dimensions.
#include <algorithm>
#include <numeric>

#include "core/checked_math.h"
#include "graph/ir/attributes.h"
#include "graph/ir/dim_rules.h"

namespace cudaep::graph::ir {

MaybeDims DimRules::Split(const Node& node, size_t output) const {
  MaybeDims dims = Stated(node, 0);
  const int64_t axis = dims ? AxisOf(node, dims->size(), 0) : -1;
  if (axis < 0) return std::nullopt;
  Dim& dim = (*dims)[static_cast<size_t>(axis)];
  const auto* const listed = FindAttribute<std::vector<int64_t>>(node, "split");
  const Elements* const given = node.inputs.size() > 1 ? ElementsOf(node.inputs[1]) : nullptr;
  const auto parts = static_cast<int64_t>(node.outputs.size()), index = static_cast<int64_t>(output);
  if (listed != nullptr) {
    dim = output < listed->size() ? Dim{.size = (*listed)[output]} : Dim{};
  } else if (node.inputs.size() > 1 && node.inputs[1] >= 0) {
    dim = given != nullptr && output < given->size() ? Symbols::DimOf((*given)[output]) : Dim{};
  } else if (dim.known()) {
    const int64_t size = (dim.size + parts - 1) / parts;  // the last part may be smaller
    dim.size = std::clamp<int64_t>(dim.size - index * size, 0, size);
  } else {
    dim = {};
  }
  return dims;
}

MaybeDims DimRules::Tiled(const Node& node) const {
  MaybeDims dims = Stated(node, 0);
  const Elements* const repeats = node.inputs.size() == 2 ? ElementsOf(node.inputs[1]) : nullptr;
  if (!dims || repeats == nullptr || repeats->size() != dims->size()) return std::nullopt;
  for (size_t i = 0; i < dims->size(); ++i) (*dims)[i] = Symbols::DimOf(Times(ElementOf((*dims)[i]), (*repeats)[i]));
  return dims;
}

MaybeDims DimRules::Padded(const Node& node) {
  MaybeDims dims = Stated(node, 0);
  if (!dims) return std::nullopt;
  const Elements pads = GivenNumbers(node, "pads", 1);
  std::vector<int64_t> axes(dims->size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.inputs.size() > 3 && node.inputs[3] >= 0) {
    const auto named = AxesOf(node, 3);
    if (!named) return std::nullopt;
    axes = *named;
  }
  if (pads.size() != 2 * axes.size()) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t at = axes[i] < 0 ? axes[i] + static_cast<int64_t>(dims->size()) : axes[i];
    if (at < 0 || at >= static_cast<int64_t>(dims->size())) return std::nullopt;
    Dim& dim = (*dims)[static_cast<size_t>(at)];
    const Element &before = pads[i], &behind = pads[axes.size() + i];
    int64_t size = 0;
    if (before == Number(0) && behind == Number(0)) continue;
    const bool adds_up = dim.known() && before.is_number() && behind.is_number() &&
                         CheckedAdd(before.number, behind.number, &size) && CheckedAdd(size, dim.size, &size);
    dim = adds_up && size >= 0 ? Dim{.size = size} : Dim{};
  }
  return dims;
}

MaybeDims DimRules::Flattened(const Node& node) const {
  const MaybeDims& from = Stated(node, 0);
  if (!from) return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  const int64_t axis = IntAttribute(node, "axis", 1), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at > rank) return std::nullopt;
  Element sides[2] = {Number(1), Number(1)};
  for (int64_t i = 0; i < rank; ++i) {
    Element& side = sides[i < at ? 0 : 1];
    side = Times(side, ElementOf((*from)[static_cast<size_t>(i)]));
  }
  return DimList{Symbols::DimOf(sides[0]), Symbols::DimOf(sides[1])};
}

MaybeDims DimRules::Folded(const Node& node) const {
  MaybeDims dims = Stated(node, 0);
  const int64_t block = IntAttribute(node, "blocksize", 0);
  if (!dims || dims->size() != 4 || block < 1 || block > (1 << 15)) return std::nullopt;
  const bool to_depth = node.Is("SpaceToDepth");
  const auto scale = [&](size_t i, int64_t by, bool up) {
    const Element size = ElementOf((*dims)[i]);
    (*dims)[i] = Symbols::DimOf(up ? Times(size, Number(by)) : Quotient(size, Number(by)));
  };
  scale(1, block * block, to_depth);
  scale(2, block, !to_depth);
  scale(3, block, !to_depth);
  return dims;
}

}  // namespace cudaep::graph::ir
