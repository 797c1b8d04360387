#include "graph/pass/projections.h"

#include <array>
#include <cstring>

#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// x * weights + bias.
struct Projection {
  int x = -1, weights = -1, bias = -1;  // no bias: -1
  int64_t columns = 0;
};
using Projections = std::array<Projection, 3>;

// Matrices side by side; an absent one is zeros.
ops::HostTensor SideBySide(const ir::Graph& graph, std::span<const int> parts, std::span<const int64_t> columns,
                           Shape dims, DataType type) {
  ops::HostTensor joined{.type = type, .dims = std::move(dims), .data = {}};
  joined.data.resize(joined.view().bytes());
  const size_t row_bytes = static_cast<size_t>(joined.dims[joined.dims.rank() - 1]) * SizeOf(type);
  size_t offset = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const size_t bytes = static_cast<size_t>(columns[p]) * SizeOf(type);
    for (size_t row = 0; parts[p] >= 0 && row * row_bytes < joined.data.size(); ++row) {
      const auto* source = static_cast<const std::byte*>(graph.value(parts[p]).constant.data) + row * bytes;
      std::memcpy(joined.data.data() + row * row_bytes + offset, source, bytes);
    }
    offset += bytes;
  }
  return joined;
}

class Merger {
 public:
  explicit Merger(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Merge(int index) const {
    if (!IsPlain(rewrite_.node(index))) return;
    Projections parts;
    for (size_t i = 0; i < 3; ++i) {
      const auto part = ProjectionOf(rewrite_.node(index).inputs[i]);
      if (!part || part->x != (i == 0 ? part->x : parts[0].x)) return;
      parts[i] = *part;
    }
    const DataType type = graph_.value(parts[0].x).type;
    if (!kFloatTypesNoDouble.Contains(type) || parts[0].columns != parts[1].columns) {
      return rewrite_.Miss(index, "queries and keys, of floats up to 32 bits, have to have one size");
    }
    ir::Node fused = Packed(index, parts);
    rewrite_.Replace(index, std::move(fused));
  }

 private:
  // ONNX Attention of nothing but heads, a scale and a mask of floats.
  bool IsPlain(const ir::Node& node) const {
    if (node.on_host || !node.Is("Attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
    for (const auto& [name, value] : node.attributes) {
      if (name != "scale" && name != "empty_is_nan" && name != "q_num_heads" && name != "kv_num_heads") return false;
    }
    const int64_t heads = IntAttribute(node, "q_num_heads", 0);
    return heads > 0 && heads == IntAttribute(node, "kv_num_heads", 0) && FloatAttribute(node, "scale", 1) != 0 &&
           (node.inputs.size() < 4 || node.inputs[3] < 0 ||
            graph_.value(node.inputs[3]).type == graph_.value(node.inputs[0]).type);
  }

  // Of a product of which nobody else reads more than dimensions.
  std::optional<Projection> ProjectionOf(int value) const {
    const ir::Node* const product = rewrite_.match.Maker(value);
    if (product == nullptr || !rewrite_.match.IsPrivate(value)) return std::nullopt;
    const bool with_bias = product->Is("MatMul", ops::kFusedDomain);
    if ((!with_bias && !product->Is("MatMul")) || !product->attributes.empty()) return std::nullopt;
    Projection part{.x = product->inputs[0], .weights = product->inputs[1]};
    if (with_bias) {
      part.bias = product->inputs[2];
      if (product->inputs[3] >= 0 || (part.bias >= 0 && !graph_.value(part.bias).is_constant())) return std::nullopt;
    }
    const ir::Value& weights = graph_.value(part.weights);
    const auto& x = graph_.value(part.x).dims;
    if (!weights.is_constant() || weights.constant.rank != 2 || !x || x->size() != 3) return std::nullopt;
    part.columns = weights.constant.dims()[1];
    return part;
  }

  ir::Node Packed(int index, const Projections& parts) const {
    const ir::Node& attention = rewrite_.node(index);
    std::array<int, 3> weights{}, biases{};
    std::array<int64_t, 3> columns{};
    int64_t all = 0;
    bool has_bias = false;
    for (size_t i = 0; i < 3; ++i) {
      weights[i] = parts[i].weights, biases[i] = parts[i].bias, columns[i] = parts[i].columns;
      all += columns[i];
      has_bias = has_bias || biases[i] >= 0;
    }
    const ops::TensorView first = graph_.value(weights[0]).constant;
    const std::string name = graph_.value(weights[0]).name;
    ir::Node fused = rewrite_.Instead(index, ops::kMicrosoftDomain, "Attention", 1);
    fused.inputs = {parts[0].x,
                    graph_.AddConstant(name, SideBySide(graph_, weights, columns, {first.dims()[0], all}, first.type))};
    fused.inputs.push_back(has_bias ? graph_.AddConstant(name, SideBySide(graph_, biases, columns, {all}, first.type))
                                    : -1);
    if (attention.inputs.size() > 3 && attention.inputs[3] >= 0) {
      fused.inputs.insert(fused.inputs.end(), {-1, -1, attention.inputs[3]});
    }
    fused.attributes = {{"num_heads", IntAttribute(attention, "q_num_heads", 0)},
                        {"qkv_hidden_sizes", std::vector<int64_t>(columns.begin(), columns.end())}};
    for (const char* name : {"scale", "empty_is_nan"}) {
      const auto found = attention.attributes.find(std::string_view(name));
      if (found != attention.attributes.end()) fused.attributes.insert(*found);
    }
    return fused;
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
};

}  // namespace

void MergeProjections(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kProjections);
  const Merger merger(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) merger.Merge(n);
}

}  // namespace cudaep::graph
