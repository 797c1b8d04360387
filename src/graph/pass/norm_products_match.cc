#include "graph/pass/norm_products_match.h"

#include <algorithm>
#include <cmath>

#include "graph/ir/constants.h"
#include "kernels/gemm/normed_rows.h"
#include "ops/activation_attributes.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Numbers = std::vector<double>;

// A scale that is so many times the others, and is 1 among rows that are kept, would make numbers below the normal ones
// of what those multiply. Larger ones than any are as good as none.
constexpr double kMostTimesOthers = 16, kLargestScale = 0x1p15;

class Finder {
 public:
  explicit Finder(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  std::map<int, MovableNorm> Find() {
    for (int n = 0; n < rewrite_.node_count(); ++n) FindNorm(n);
    for (auto& [rows, norm] : norms_) FindReaders(norm);
    return std::move(norms_);
  }

 private:
  // A product of rows with a matrix of its own.
  std::optional<ProductBesideNorm> ProductOf(int index) const {
    const ir::Node& node = rewrite_.node(index);
    const bool is_attention = node.Is("Attention", ops::kMicrosoftDomain);
    if (node.on_host || IntAttribute(node, "own_weights", 0) == 0 ||
        !(is_attention || node.Is("MatMul", ops::kFusedDomain))) {
      return std::nullopt;
    }
    auto activation = ops::ParseActivation(ir::NodeInfo(graph_, node, rewrite_.settings()));
    const ops::TensorView& w = graph_.value(node.inputs[kProductB]).constant;
    if (!activation.ok() || !w.present() || w.rank != 2 || !kFloat16Types.Contains(w.type)) return std::nullopt;
    const bool turned = IntAttribute(node, "transB", 0) != 0;
    ProductBesideNorm product;
    product.sizes = {.type = w.type,
                     .n = w.dim[turned ? 0 : 1],
                     .k = w.dim[turned ? 1 : 0],
                     .bias = true,
                     .activation = activation->activation};
    product.bias = InputOf(node, kProductBias);
    if (!is_attention) product.residual = InputOf(node, kProductResidual);
    product.sizes.residual = product.residual >= 0;
    const ir::Value* const bias = product.bias < 0 ? nullptr : &graph_.value(product.bias);
    const bool has_vector = bias == nullptr || (bias->is_constant() && bias->constant.rank == 1 &&
                                                bias->constant.elems() == product.sizes.n);
    return has_vector && product.sizes.n % kernels::kManyRowsColumns == 0 ? std::optional(product) : std::nullopt;
  }

  void FindNorm(int index) {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !node.Is("LayerNormalization") || node.outputs.size() != 1) return;
    const ir::Value& rows = graph_.value(node.inputs[0]);
    const int64_t axis = IntAttribute(node, "axis", -1);
    if (!rows.dims || (axis != -1 && axis != static_cast<int64_t>(rows.dims->size()) - 1)) return;
    const int maker = rewrite_.match.Maker(node.inputs[0]) == nullptr ? -1 : rewrite_.match.MakerIndex(node.inputs[0]);
    const std::optional<ProductBesideNorm> product = maker < 0 ? std::nullopt : ProductOf(maker);
    if (!product || !rewrite_.node(maker).Is("MatMul", ops::kFusedDomain)) return;
    if (product->residual < 0 || product->sizes.activation != Activation::kNone) return;
    if (product->sizes.n % kernels::kNormedPack != 0) return;
    if (NormBehind(maker) != nullptr) return rewrite_.Miss(index, "another normalisation reads the same sum");
    MovableNorm norm{
        .product = maker, .norm = index, .sizes = *product, .epsilon = FloatAttribute(node, "epsilon", 1e-5f)};
    const auto vector = [&](int value) -> std::optional<Numbers> {
      auto numbers = ir::NumbersOf(graph_, value);
      const bool fits = numbers && numbers->size() == static_cast<size_t>(product->sizes.n) &&
                        graph_.value(value).type == rows.type && graph_.value(value).constant.rank == 1 &&
                        std::ranges::all_of(*numbers, [](double x) { return std::isfinite(x); });
      return fits ? numbers : std::nullopt;
    };
    const int shift = InputOf(node, 2);
    auto gamma = vector(InputOf(node, 1)),
         beta = shift < 0 ? Numbers(static_cast<size_t>(product->sizes.n), 0.0) : vector(shift);
    if (!gamma || !beta) return rewrite_.Miss(index, "scale and bias are not constant vectors of the rows' type");
    double largest = 0, sum = 0;
    for (const double each : *gamma) largest = std::max(largest, std::abs(each)), sum += std::abs(each);
    const double usual = sum / static_cast<double>(gamma->size());
    if (largest > kLargestScale || largest > kMostTimesOthers * usual) {
      return rewrite_.Miss(index, "one of its scales is too large beside the others");
    }
    if (largest > 0) norm.scale = static_cast<float>(std::exp2(std::ceil(std::log2(largest))));
    norm.gamma = *std::move(gamma), norm.beta = *std::move(beta);
    norms_.emplace(node.outputs[0], std::move(norm));
  }

  // The normalisation of what a node makes; null: there is none.
  const MovableNorm* NormBehind(int node) const {
    const auto found = std::ranges::find_if(norms_, [&](const auto& each) { return each.second.product == node; });
    return found == norms_.end() ? nullptr : &found->second;
  }

  const char* WhyNotRead(const MovableNorm& norm, const ir::Uses::Use& use,
                         const std::optional<ProductBesideNorm>& product) const {
    constexpr const char* kOthers = "others than products with weights of their own read it";
    const ir::Node& node = rewrite_.node(use.node);
    const bool is_attention = node.Is("Attention", ops::kMicrosoftDomain);
    if (!product || (use.input != kProductA && (is_attention || use.input != kProductResidual))) return kOthers;
    if (std::ranges::count(node.inputs, rewrite_.node(norm.norm).outputs[0]) != 1) return "a product reads it twice";
    if (use.input == kProductResidual) {
      return NormBehind(use.node) != nullptr ? nullptr : "a product adds it whose result is not normalised";
    }
    if (product->residual >= 0) return "a product that has a residual reads it";
    if (product->sizes.k != norm.sizes.sizes.n) return kOthers;
    if (is_attention) return WhyNotApart(node, product->sizes.n);
    const Activation activation = product->sizes.activation;
    const bool ends = kernels::IsNoneOrRelu(activation) || activation == Activation::kGeluErf;
    return ends ? nullptr : "a product has another activation than ReLU and GELU by erf";
  }

  // Of an Attention that is to become a product and the regions' own.
  const char* WhyNotApart(const ir::Node& attention, int64_t columns) const {
    constexpr const char* kWhyNot = "an Attention has more than queries, keys, values and a mask of floats";
    constexpr size_t kMask = 3, kPast = 4, kPastLength = 6;
    for (const char* name : {"unidirectional", "do_rotary", "past_present_share_buffer", "rotary_embedding_dim"}) {
      if (IntAttribute(attention, name, 0) != 0) return kWhyNot;
    }
    const auto [heads, hidden, v_hidden] = PackedHeadsOf(attention, columns);
    const bool divides = heads > 0 && hidden > 0 && hidden % heads == 0 && v_hidden > 0 && v_hidden % heads == 0 &&
                         2 * hidden + v_hidden == columns;
    const bool plain = divides && InputOf(attention, kMask) < 0 && InputOf(attention, kPast) < 0 &&
                       InputOf(attention, kPastLength) < 0 && attention.outputs.size() == 1 &&
                       graph_.value(attention.inputs[0]).dims.has_value();
    return plain ? nullptr : kWhyNot;
  }

  void FindReaders(MovableNorm& norm) {
    const int rows = rewrite_.node(norm.norm).outputs[0];
    const auto miss = [&](const char* why) { rewrite_.Miss(norm.norm, why); };
    if (graph_.value(rows).output >= 0) return miss("it leaves the region");
    for (const ir::Uses::Use& use : rewrite_.match.uses().readers(rows)) {
      if (rewrite_.node(use.node).on_host) continue;  // asks for dimensions
      const std::optional<ProductBesideNorm> product = ProductOf(use.node);
      if (const char* const why = WhyNotRead(norm, use, product)) return miss(why);
      norm.readers.push_back({use.node, use.input, *product});
    }
    norm.moves = std::ranges::any_of(norm.readers, [](const NormReader& reader) { return reader.input == kProductA; });
    if (!norm.moves) miss("no product reads it");
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  std::map<int, MovableNorm> norms_;
};

}  // namespace

std::map<int, MovableNorm> FindMovableNorms(const Rewriter& rewrite) { return Finder(rewrite).Find(); }

PackedHeads PackedHeadsOf(const ir::Node& attention, int64_t columns) {
  const int64_t heads = IntAttribute(attention, "num_heads", 0);
  const auto* const sizes = ir::FindAttribute<std::vector<int64_t>>(attention, "qkv_hidden_sizes");
  if (sizes == nullptr || sizes->empty()) return {heads, columns / 3, columns / 3};
  if (sizes->size() != 3 || (*sizes)[0] != (*sizes)[1]) return {heads, 0, 0};
  return {heads, (*sizes)[0], (*sizes)[2]};
}

}  // namespace cudaep::graph
