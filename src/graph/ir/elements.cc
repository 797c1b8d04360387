#include "graph/ir/elements.h"

#include <algorithm>
#include <limits>

#include "core/checked_math.h"
#include "graph/ir/attributes.h"
#include "graph/ir/element_moves.h"

namespace cudaep::graph::ir {
namespace {

constexpr Element kUnknown{};

int64_t Clamped(int64_t at, int64_t size) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); }

std::optional<Elements> ShapeOf(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).dims;
  if (!dims) return std::nullopt;
  const auto rank = static_cast<int64_t>(dims->size());
  const int64_t start = Clamped(IntAttribute(node, "start", 0), rank),
                end = Clamped(IntAttribute(node, "end", rank), rank);
  Elements elements;
  for (int64_t i = start; i < end; ++i) elements.push_back(ElementOf((*dims)[static_cast<size_t>(i)]));
  return elements;
}

Element Combined(const Node& node, const Element& a, const Element& b, Symbols& symbols) {
  if (!a.known || !b.known) return kUnknown;
  if (node.Is("Equal")) {
    if (a == b) return Number(1);
    const auto differ = [](const Element& x, const Element& y) {
      return x.not_negative() && y.is_number() && y.number < 0;
    };
    const bool told = (a.is_number() && b.is_number()) || differ(a, b) || differ(b, a);
    return told ? Number(0) : kUnknown;
  }
  if (node.Is("Mul")) return Times(a, b);
  if (b.number == std::numeric_limits<int64_t>::min()) return kUnknown;
  if (a.is_number() && b.is_number()) {
    int64_t sum = 0;
    const bool is_natural = b.number > 0 && a.number >= 0;
    if (node.Is("Div")) return is_natural ? Number(a.number / b.number) : kUnknown;
    if (node.Is("Mod")) return is_natural ? Number(a.number % b.number) : kUnknown;
    return CheckedAdd(a.number, node.Is("Sub") ? -b.number : b.number, &sum) ? Number(sum) : kUnknown;
  }
  if (node.Is("Div") && b.is_number() && b.number > 0) {
    if (Element exact = Quotient(a, b); exact.known) return exact;
    // Of what may be negative the quotient is cut off towards 0.
    const Element floor = symbols.Floor(a, 0, b.number);
    return a.not_negative() || floor.not_negative() ? floor : kUnknown;
  }
  if (node.Is("Sub") && b.is_number()) return symbols.Floor(a, -b.number, 1);
  if (node.Is("Add") && (a.is_number() || b.is_number())) return symbols.Sum(a, b);
  if (node.Is("Sub") || node.Is("Div") || !a.not_negative() || !b.not_negative()) return kUnknown;
  if (node.Is("Mod")) {
    if (!b.is_number() || b.number == 0) return kUnknown;
    if (Quotient(a, b).known) return Number(0);
  }
  if (node.Is("Add")) return symbols.Sum(a, b);
  return symbols.Named(node.op_type.c_str(), a, b);
}

std::optional<Elements> Elementwise(const Node& node, const Elements& a, const Elements& b, Symbols& symbols) {
  const size_t size = std::max(a.size(), b.size());
  if ((a.size() != size && a.size() != 1) || (b.size() != size && b.size() != 1)) return std::nullopt;
  Elements elements;
  for (size_t i = 0; i < size; ++i) {
    elements.push_back(Combined(node, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i], symbols));
  }
  return elements;
}

std::optional<Elements> Chosen(const Elements& which, const Elements& a, const Elements& b) {
  const size_t size = std::max({which.size(), a.size(), b.size()});
  Elements elements;
  for (size_t i = 0; i < size; ++i) {
    const auto at = [&](const Elements& of) -> const Element* {
      return of.size() == size ? &of[i] : of.size() == 1 ? &of[0] : nullptr;
    };
    const Element *const condition = at(which), *const yes = at(a), *const no = at(b);
    if (condition == nullptr || yes == nullptr || no == nullptr || !condition->is_number()) return std::nullopt;
    elements.push_back(*condition == Number(0) ? *no : *yes);
  }
  return elements;
}

std::optional<Elements> Filled(const Node& node, const Elements& shape) {
  if (shape.size() > 1 || (shape.size() == 1 && !shape[0].is_number())) return std::nullopt;
  const int64_t count = shape.empty() ? 1 : shape[0].number;
  const auto* const value = FindAttribute<ops::HostTensor>(node, "value");
  if (count < 0 || count > kMostElements || value == nullptr || value->type != DataType::kInt64) return std::nullopt;
  return Elements(static_cast<size_t>(count), Number(value->view().host<int64_t>()[0]));
}

// As the type has it. Symbols are not followed into types that may not have the number.
Element InType(const Element& element, DataType type) {
  if (type == DataType::kInt64) return element;
  if (!element.is_number()) return kUnknown;
  if (type == DataType::kBool) return Number(element.number != 0 ? 1 : 0);
  return element.number == static_cast<int32_t>(element.number) ? element : kUnknown;
}

std::optional<Elements> Follow(const Graph& graph, const Node& node, std::span<const Elements* const> inputs,
                               Symbols& symbols) {
  if (node.Is("Shape")) return ShapeOf(graph, node);
  const auto has_axes = [&](int value) {
    return value >= 0 && graph.value(value).dims && graph.value(value).dims->size() > 1;
  };
  const bool is_table = std::ranges::any_of(node.inputs, has_axes);
  if (node.Is("Concat")) {
    if (is_table) return std::nullopt;
    Elements all;
    for (const Elements* const part : inputs) {
      if (part == nullptr) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  if (node.Is("Unsqueeze") || node.Is("Squeeze") || node.Is("Cast") || node.Is("Identity") || node.Is("Reshape")) {
    return *inputs[0];
  }
  if (node.Is("Slice")) return SlicedElements(graph, node, inputs);
  if (node.Is("Transpose")) return TransposedElements(graph, node, *inputs[0]);
  if (is_table) return std::nullopt;
  if (node.Is("ConstantOfShape")) return Filled(node, *inputs[0]);
  if (inputs.size() < 2 || inputs[1] == nullptr) return std::nullopt;
  if (node.Is("Gather")) return GatheredElements(*inputs[0], *inputs[1]);
  constexpr std::string_view kCombined[] = {"Mul", "Div", "Mod", "Add", "Sub", "Equal"};
  if (node.domain.empty() && std::ranges::find(kCombined, node.op_type) != std::end(kCombined)) {
    return Elementwise(node, *inputs[0], *inputs[1], symbols);
  }
  if (node.Is("Where") && inputs.size() == 3 && inputs[2] != nullptr) return Chosen(*inputs[0], *inputs[1], *inputs[2]);
  return std::nullopt;
}

}  // namespace

std::string SymbolOf(std::string_view name) {
  constexpr std::string_view kNotFirst = "#~'0123456789";
  const bool is_plain = name.find('*') == name.npos && (name.empty() || kNotFirst.find(name.front()) == name.npos);
  if (is_plain) return std::string(name);
  std::string symbol = "'";
  for (const char c : name) {
    if (c == '*') {
      symbol += "'x";
    } else {
      symbol.append(c == '\'' ? 2 : 1, c);
    }
  }
  return symbol;
}

Element ElementOf(const Dim& dim) {
  if (dim.known()) return Number(dim.size);
  if (dim.symbol.empty()) return kUnknown;
  Element product = Number(1);
  for (std::string_view rest = dim.symbol; !rest.empty();) {
    const std::string_view factor = rest.substr(0, rest.find('*'));
    rest.remove_prefix(std::min(rest.size(), factor.size() + 1));
    const bool digits = factor.find_first_not_of("0123456789") == std::string_view::npos && factor.size() < 10;
    product = Times(product, digits && !factor.empty() ? Number(std::stoll(std::string(factor)))
                                                       : Element{true, 1, {std::string(factor)}});
  }
  return product;
}

Element Times(Element a, const Element& b) {
  constexpr size_t kMostSymbols = 16;
  if (!a.known || !b.known || a.symbols.size() + b.symbols.size() > kMostSymbols) return kUnknown;
  if (!CheckedMultiply(a.number, b.number, &a.number)) return kUnknown;
  a.symbols.insert(a.symbols.end(), b.symbols.begin(), b.symbols.end());
  std::sort(a.symbols.begin(), a.symbols.end());
  if (a.number == 0) a.symbols.clear();
  return a;
}

Element Quotient(Element a, const Element& b) {
  if (!a.known || !b.known || b.number <= 0 || a.number % b.number != 0) return kUnknown;
  a.number /= b.number;
  for (const std::string& symbol : b.symbols) {
    const auto found = std::find(a.symbols.begin(), a.symbols.end(), symbol);
    if (found == a.symbols.end()) return kUnknown;
    a.symbols.erase(found);
  }
  return a;
}

Element Symbols::Named(const std::string& expression) {
  const auto [entry, fresh] = names_.try_emplace(expression, StrCat("#", names_.size()));
  return {true, 1, {entry->second}};
}

Element Symbols::Sum(const Element& a, const Element& b) {
  if (!a.known || !b.known) return kUnknown;
  if (a.is_number()) return Floor(b, a.number, 1);
  if (b.is_number()) return Floor(a, b.number, 1);
  return Text(b) < Text(a) ? Named("Add", b, a) : Named("Add", a, b);
}

Element Symbols::Floor(const Element& x, int64_t offset, int64_t divisor, bool exists) {
  if (!x.known) return kUnknown;
  if (x.is_number()) {
    int64_t sum = 0;
    if (!CheckedAdd(x.number, offset, &sum) || sum < 0) return kUnknown;
    return Number(sum / divisor);
  }
  const bool is_certain = exists || (x.not_negative() && offset >= 0);
  if (offset >= 0 && offset < divisor) {
    if (Element exact = Quotient(x, Number(divisor)); exact.known) return exact;
  }
  if (x.number == 1 && x.symbols.size() == 1) {
    const std::string& symbol = x.symbols[0];
    const auto found = floors_.find(symbol.starts_with(kSigned) ? symbol.substr(1) : symbol);
    if (found != floors_.end()) {
      const Floored& of = found->second;
      if (!CheckedMultiply(offset, of.divisor, &offset) || !CheckedAdd(offset, of.offset, &offset) ||
          !CheckedMultiply(divisor, of.divisor, &divisor)) {
        return kUnknown;
      }
      return Floor(of.x, offset, divisor, is_certain);
    }
  }
  const Element named = Named("floor", x, offset, divisor);
  const auto [entry, fresh] = floors_.try_emplace(named.symbols[0], Floored{x, offset, divisor, is_certain});
  if (is_certain && !std::exchange(entry->second.not_negative, true)) has_news_ = true;
  return entry->second.not_negative ? named : Element{true, 1, {kSigned + named.symbols[0]}};
}

std::string Symbols::Text(const Element& element) {
  std::string text = element.number == 1 && !element.symbols.empty() ? "" : StrCat(element.number);
  for (const std::string& symbol : element.symbols) text += StrCat(text.empty() ? "" : "*", symbol);
  return text;
}

Dim Symbols::DimOf(const Element& element) {
  if (!element.not_negative()) return {};
  if (element.is_number()) return {.size = element.number};
  return {.symbol = Text(element)};
}

std::optional<Elements> FollowElements(const Graph& graph, const Node& node, std::span<const Elements* const> inputs,
                                       Symbols& symbols) {
  std::optional<Elements> elements = Follow(graph, node, inputs, symbols);
  if (!elements) return std::nullopt;
  const DataType type = graph.value(node.outputs[0]).type;
  for (Element& element : *elements) element = InType(element, type);
  return elements;
}

}  // namespace cudaep::graph::ir
