#include "graph/pass/norm_products.h"

#include <algorithm>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "graph/ir/constants.h"
#include "graph/pass/norm_products_match.h"
#include "ops/gemm/norm_products.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using kernels::ManyRowsProduct;
using Numbers = std::vector<double>;

// A node for the place of another, and one in front of it, if any.
struct Replacement {
  int index;
  ir::Node node;
  std::vector<ir::Node> before = {};
  int gone = -1;  // another node that it does
};

class Mover {
 public:
  Mover(const Rewriter& rewrite, const PassContext& context)
      : rewrite_(rewrite), context_(context), graph_(rewrite.graph), norms_(FindMovableNorms(rewrite)) {}

  // All or nothing: each product counts on the others.
  void Move() {
    for (auto& [rows, norm] : norms_) {
      if (norm.moves) DescribeProducts(norm);
    }
    std::vector<Replacement> replacements;
    for (const auto& [rows, norm] : norms_) {
      if (norm.moves || KeptResidualOf(norm) != nullptr) replacements.push_back(OfProduct(norm));
      for (const NormReader& reader : norm.readers) {
        if (norm.moves && reader.input == kProductA) replacements.push_back(OfReader(norm, reader));
      }
    }
    const auto is_supported = [&](const ir::Node& node) { return context_.IsSupported(graph_, node); };
    for (const Replacement& each : replacements) {
      if (is_supported(each.node) && std::ranges::all_of(each.before, is_supported)) continue;
      return rewrite_.Miss(each.index, "no kernel takes a product around a normalisation");
    }
    for (Replacement& each : replacements) {
      rewrite_.Replace(each.index, std::move(each.node), std::move(each.before));
      if (each.gone >= 0) rewrite_.node(each.gone).outputs.clear();
    }
    rewrite_.PlaceNodesInFront();
    std::erase_if(graph_.nodes, [](const ir::Node& node) { return node.outputs.empty(); });
  }

 private:
  void DescribeProducts(MovableNorm& norm) {
    std::vector<ManyRowsProduct> products{norm.sizes.sizes};
    for (const NormReader& reader : norm.readers) products.push_back(reader.product.sizes);
    norm.products = ops::NormProducts(std::move(products)).AsAttribute();
    const ir::Node& node = rewrite_.node(norm.norm);
    std::vector<ir::Dim> dims = graph_.value(node.inputs[0]).dims.value();
    dims.back() = {.size = norm.sizes.sizes.n / kernels::kMomentElems};
    dims.push_back({.size = 2});
    ir::Value moments{.name = graph_.value(node.outputs[0]).name, .type = DataType::kFloat, .dims = std::move(dims)};
    norm.moments = graph_.AddValue(std::move(moments));
  }

  // Of a product's residual, if that is kept.
  const MovableNorm* KeptResidualOf(const MovableNorm& norm) const {
    const auto found = norms_.find(norm.sizes.residual);
    return found != norms_.end() && found->second.moves ? &found->second : nullptr;
  }

  int AddVectors(const std::string& name, const std::vector<Numbers>& vectors) const {
    Numbers all;
    for (const Numbers& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
    const Shape dims{static_cast<int64_t>(vectors.size()), static_cast<int64_t>(vectors.front().size())};
    return graph_.AddConstant(name, ir::MakeNumbers(DataType::kFloat, dims, all));
  }

  Numbers BiasOf(const ProductBesideNorm& product) const {
    return product.bias >= 0 ? *ir::NumbersOf(graph_, product.bias)
                             : Numbers(static_cast<size_t>(product.sizes.n), 0.0);
  }

  Replacement OfProduct(const MovableNorm& norm) const {
    const ir::Node& product = rewrite_.node(norm.product);
    const ir::Node& rows = rewrite_.node(norm.norm);
    const MovableNorm* const kept = KeptResidualOf(norm);
    ir::Node fused = product;
    fused.sources.clear();
    fused.op_type = "MatMulNorm";
    fused.attributes.insert({{"norm_products", norm.products}, {"epsilon", norm.epsilon}, {"norm_scale", norm.scale}});
    Numbers factor = norm.gamma;
    for (double& each : factor) each = norm.moves ? each / static_cast<double>(norm.scale) : 1;
    std::vector<Numbers> vectors{BiasOf(norm.sizes), std::move(factor)};
    if (kept != nullptr) {
      vectors.push_back(kept->gamma), vectors.push_back(kept->beta);
      fused.attributes.insert({{"residual_products", kept->products},
                               {"residual_epsilon", kept->epsilon},
                               {"residual_scale", kept->scale}});
    }
    fused.inputs.resize(kProductResidual + 1, -1);
    int beta = InputOf(rows, 2);
    if (beta < 0) {
      const DataType type = graph_.value(rows.inputs[1]).type;
      beta = graph_.AddConstant(rows.name, ir::MakeNumbers(type, Shape{norm.sizes.sizes.n}, norm.beta));
    }
    fused.inputs.insert(fused.inputs.end(), {rows.inputs[1], beta, AddVectors(product.name, vectors),
                                             kept != nullptr ? kept->moments : -1});
    const int sum = product.outputs[0];
    const bool is_read = graph_.value(sum).output >= 0 || rewrite_.match.uses().readers(sum).size() > 1;
    fused.outputs = {rows.outputs[0], norm.moments, is_read ? sum : -1};
    return {.index = norm.product, .node = std::move(fused), .gone = norm.norm};
  }

  // What the scale and the shift of a normalisation make of each column of a product.
  std::vector<Numbers> ColumnsOf(const MovableNorm& norm, const ProductBesideNorm& product,
                                 const ir::Node& node) const {
    const auto n = static_cast<size_t>(product.sizes.n), k = static_cast<size_t>(product.sizes.k);
    const bool turned = IntAttribute(node, "transB", 0) != 0;
    std::vector<float> scaled(n, 0.0f), shifted(n, 0.0f);
    VisitType<kFloat16Types>(product.sizes.type, false, [&]<class T>() {
      const auto weights = graph_.value(node.inputs[kProductB]).constant.host<T>();
      const std::vector<float> gamma(norm.gamma.begin(), norm.gamma.end()), beta(norm.beta.begin(), norm.beta.end());
      const size_t lines = turned ? n : k, each = turned ? k : n;
      for (size_t line = 0; line < lines; ++line) {
        for (size_t at = 0; at < each; ++at) {
          const size_t i = turned ? at : line, j = turned ? line : at;
          const float w = ToFloat(weights[line * each + at]);
          scaled[j] += gamma[i] * w, shifted[j] += beta[i] * w;
        }
      }
      return true;
    });
    Numbers bias = BiasOf(product);
    for (size_t j = 0; j < n; ++j) bias[j] += static_cast<double>(shifted[j]);
    return {Numbers(scaled.begin(), scaled.end()), std::move(bias)};
  }

  Replacement OfReader(const MovableNorm& norm, const NormReader& of) const {
    const int index = of.node;
    const ProductBesideNorm& product = of.product;
    const ir::Node& reader = rewrite_.node(index);
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "NormedMatMul", 1);
    fused.inputs = {reader.inputs[kProductA],
                    reader.inputs[kProductB],
                    product.bias,
                    -1,
                    norm.moments,
                    AddVectors(reader.name, ColumnsOf(norm, product, reader))};
    fused.attributes = {{"own_weights", int64_t{1}},
                        {"norm_products", norm.products},
                        {"epsilon", norm.epsilon},
                        {"norm_scale", norm.scale}};
    for (const char* name : {"activation", "transB"}) {
      const auto found = reader.attributes.find(std::string_view(name));
      if (found != reader.attributes.end()) fused.attributes.insert(*found);
    }
    if (!reader.Is("Attention", ops::kMicrosoftDomain)) return {.index = index, .node = std::move(fused)};
    const ir::Value& x = graph_.value(reader.inputs[kProductA]);
    std::vector<ir::Dim> dims = x.dims.value();
    dims.back() = {.size = product.sizes.n};
    ir::Value projected{.name = x.name, .type = x.type, .dims = std::move(dims)};
    fused.outputs = {graph_.AddValue(std::move(projected))};
    ir::Node attention = Attention(index, product.sizes.n, fused.outputs[0]);
    return {.index = index, .node = std::move(attention), .before = {std::move(fused)}};
  }

  // The regions' own, of queries, keys and values side by side.
  ir::Node Attention(int index, int64_t columns, int projected) const {
    constexpr size_t kScoreBias = 5;
    const ir::Node& reader = rewrite_.node(index);
    const PackedHeads of = PackedHeadsOf(reader, columns);
    ir::Node attention = rewrite_.Instead(index, ops::kFusedDomain, "Attention", 1);
    attention.inputs = {projected, -1, -1, InputOf(reader, kScoreBias)};
    attention.attributes = {{"q_num_heads", of.heads}, {"kv_num_heads", of.heads}, {"head_size", of.hidden / of.heads}};
    const auto empty = reader.attributes.find("empty_is_nan");
    if (empty != reader.attributes.end()) attention.attributes.insert(*empty);
    if (const float scale = FloatAttribute(reader, "scale", 0); scale != 0) attention.attributes["scale"] = scale;
    return attention;
  }

  const Rewriter& rewrite_;
  const PassContext& context_;
  ir::Graph& graph_;
  std::map<int, MovableNorm> norms_;  // by what they make
};

}  // namespace

void MoveNormsIntoProducts(ir::Graph& graph, const PassContext& context) {
  if (context.settings.norm_path != NormPath::kAuto) return;
  const Rewriter rewrite(graph, context, Fusion::kNormProducts);
  Mover(rewrite, context).Move();
}

}  // namespace cudaep::graph
