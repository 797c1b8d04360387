#include "graph/pass/product_parts.h"

#include <algorithm>
#include <cstring>

#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// Matrices side by side; an absent one is zeros.
ops::HostTensor SideBySide(const ir::Graph& graph, std::span<const ProductPart> parts, int ProductPart::*matrix,
                           Shape dims, DataType type) {
  ops::HostTensor joined{.type = type, .dims = std::move(dims), .data = {}};
  joined.data.resize(joined.view().bytes());
  const size_t row_bytes = static_cast<size_t>(joined.dims[joined.dims.rank() - 1]) * SizeOf(type);
  size_t offset = 0;
  for (const ProductPart& part : parts) {
    const size_t bytes = static_cast<size_t>(part.columns) * SizeOf(type);
    for (size_t row = 0; part.*matrix >= 0 && row * row_bytes < joined.data.size(); ++row) {
      const auto* source = static_cast<const std::byte*>(graph.value(part.*matrix).constant.data) + row * bytes;
      std::memcpy(joined.data.data() + row * row_bytes + offset, source, bytes);
    }
    offset += bytes;
  }
  return joined;
}

int64_t AllColumns(std::span<const ProductPart> parts) {
  int64_t all = 0;
  for (const ProductPart& part : parts) all += part.columns;
  return all;
}

}  // namespace

std::optional<ProductPart> MatchProductPart(const Rewriter& rewrite, int value) {
  const ir::Node* const product = rewrite.match.Maker(value);
  if (product == nullptr || !rewrite.match.IsPrivate(value)) return std::nullopt;
  const ir::Graph& graph = rewrite.graph;
  ProductPart part;
  if (product->Is("MatMul", ops::kFusedDomain)) {
    part.bias = product->inputs[2];
    if (product->inputs[3] >= 0 || (part.bias >= 0 && !graph.value(part.bias).is_constant())) return std::nullopt;
    for (const auto& [name, attribute] : product->attributes) {
      if (name != "activation") return std::nullopt;
      part.activation = std::get<std::string>(attribute);
    }
  } else if (!product->Is("MatMul")) {
    return std::nullopt;
  }
  part.x = product->inputs[0], part.weights = product->inputs[1];
  const ir::Value& weights = graph.value(part.weights);
  if (!weights.is_constant() || weights.constant.rank != 2 || !graph.value(part.x).dims) return std::nullopt;
  part.columns = weights.constant.dims()[1];
  return part;
}

int JoinedWeights(ir::Graph& graph, std::span<const ProductPart> parts) {
  const ir::Value& first = graph.value(parts[0].weights);
  const Shape dims{first.constant.dims()[0], AllColumns(parts)};
  return graph.AddConstant(first.name, SideBySide(graph, parts, &ProductPart::weights, dims, first.type));
}

int JoinedBias(ir::Graph& graph, std::span<const ProductPart> parts) {
  if (std::ranges::all_of(parts, [](const ProductPart& part) { return part.bias < 0; })) return -1;
  const ir::Value& first = graph.value(parts[0].weights);
  return graph.AddConstant(first.name,
                           SideBySide(graph, parts, &ProductPart::bias, Shape{AllColumns(parts)}, first.type));
}

int JoinedConstants(ir::Graph& graph, std::span<const ProductPart> parts) {
  const auto there = std::ranges::find_if(parts, [](const ProductPart& part) { return part.weights >= 0; });
  const ir::Value& first = graph.value(there->weights);
  Shape dims(first.constant.dims());
  dims[dims.rank() - 1] = AllColumns(parts);
  return graph.AddConstant(first.name, SideBySide(graph, parts, &ProductPart::weights, dims, first.type));
}

ir::Node JoinedProduct(ir::Graph& graph, std::span<const ProductPart> parts) {
  const ir::Value &x = graph.value(parts[0].x), &weights = graph.value(parts[0].weights);
  std::vector<ir::Dim> dims = x.dims.value();
  dims.back() = {.size = AllColumns(parts)};
  ir::Value joined{.name = weights.name, .type = x.type, .kind = x.kind, .dims = std::move(dims)};
  ir::Node product{.name = weights.name, .domain = ops::kFusedDomain, .op_type = "MatMul"};
  product.inputs = {parts[0].x, JoinedWeights(graph, parts), JoinedBias(graph, parts), -1};
  product.outputs = {graph.AddValue(std::move(joined))};
  return product;
}

}  // namespace cudaep::graph
