#include "graph/pass/norm_products.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/data_type_traits.h"
#include "core/float16.h"
#include "graph/ir/constants.h"
#include "graph/pass/rewrite.h"
#include "ops/activation_attributes.h"
#include "ops/gemm/norm_products.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using kernels::ManyRowsProduct;
using Numbers = std::vector<double>;

enum ProductInput : size_t { kA, kB, kBias, kResidual };

// A scale that is so many times the others, and is 1 among rows that are kept, would make numbers below the normal ones
// of what those multiply. Larger ones than any are as good as none.
constexpr double kMostTimesOthers = 16, kLargestScale = 0x1p15;

// A product that may stand beside a normalisation, and its constants.
struct Product {
  ManyRowsProduct sizes;
  int bias = -1, residual = -1;
};

struct Reader {
  int node, input;
  Product product;
};

// A node for the place of another, and one in front of it, if any.
struct Replacement {
  int index;
  ir::Node node;
  std::vector<ir::Node> before;
};

// A normalisation of a product's rows.
struct Norm {
  int product = -1, norm = -1;  // nodes
  Product sizes;
  Numbers gamma, beta;
  float epsilon = 0, scale = 1;
  std::vector<Reader> readers;
  bool moves = false;
  std::vector<int64_t> products = {};  // as an attribute
  int moments = -1;                    // value
};

class Mover {
 public:
  Mover(const Rewriter& rewrite, const PassContext& context)
      : rewrite_(rewrite), context_(context), graph_(rewrite.graph) {}

  // All or nothing: each product counts on the others.
  void Move() {
    for (int n = 0; n < rewrite_.node_count(); ++n) FindNorm(n);
    for (auto& [rows, norm] : norms_) FindReaders(norm);
    for (auto& [rows, norm] : norms_) {
      if (norm.moves) DescribeProducts(norm);
    }
    std::vector<Replacement> replacements;
    for (const auto& [rows, norm] : norms_) {
      if (norm.moves || KeptResidualOf(norm) != nullptr) replacements.push_back(OfProduct(norm));
      for (const Reader& reader : norm.readers) {
        if (norm.moves && reader.input == kA) replacements.push_back(OfReader(norm, reader));
      }
    }
    const auto is_supported = [&](const ir::Node& node) { return context_.IsSupported(graph_, node); };
    for (const Replacement& each : replacements) {
      if (is_supported(each.node) && std::ranges::all_of(each.before, is_supported)) continue;
      return rewrite_.Miss(each.index, "no kernel takes a product around a normalisation");
    }
    for (Replacement& each : replacements) {
      rewrite_.Replace(each.index, std::move(each.node), std::move(each.before));
      if (const Norm* const norm = NormBehind(each.index)) rewrite_.node(norm->norm).outputs.clear();
    }
    rewrite_.PlaceNodesInFront();
    std::erase_if(graph_.nodes, [](const ir::Node& node) { return node.outputs.empty(); });
  }

 private:
  static int Input(const ir::Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : -1; }

  // A product of rows with a matrix of its own.
  std::optional<Product> ProductOf(int index) const {
    const ir::Node& node = rewrite_.node(index);
    const bool is_attention = node.Is("Attention", ops::kMicrosoftDomain);
    if (node.on_host || IntAttribute(node, "own_weights", 0) == 0 ||
        !(is_attention || node.Is("MatMul", ops::kFusedDomain))) {
      return std::nullopt;
    }
    auto activation = ops::ParseActivation(ir::NodeInfo(graph_, node, rewrite_.settings()));
    const ops::TensorView& w = graph_.value(node.inputs[kB]).constant;
    if (!activation.ok() || !w.present() || w.rank != 2 || !kFloat16Types.Contains(w.type)) return std::nullopt;
    const bool turned = IntAttribute(node, "transB", 0) != 0;
    Product product;
    product.sizes = {.type = w.type,
                     .n = w.dim[turned ? 0 : 1],
                     .k = w.dim[turned ? 1 : 0],
                     .bias = true,
                     .activation = activation->activation};
    product.bias = Input(node, kBias);
    if (!is_attention) product.residual = Input(node, kResidual);
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
    const std::optional<Product> product = maker < 0 ? std::nullopt : ProductOf(maker);
    if (!product || !rewrite_.node(maker).Is("MatMul", ops::kFusedDomain)) return;
    if (product->residual < 0 || product->sizes.activation != Activation::kNone) return;
    if (product->sizes.n % kernels::kNormedPack != 0) return;
    if (NormBehind(maker) != nullptr) return rewrite_.Miss(index, "another normalisation reads the same sum");
    Norm norm{.product = maker, .norm = index, .sizes = *product, .epsilon = FloatAttribute(node, "epsilon", 1e-5f)};
    const auto vector = [&](int value) -> std::optional<Numbers> {
      auto numbers = ir::NumbersOf(graph_, value);
      const bool fits = numbers && numbers->size() == static_cast<size_t>(product->sizes.n) &&
                        graph_.value(value).type == rows.type && graph_.value(value).constant.rank == 1 &&
                        std::ranges::all_of(*numbers, [](double x) { return std::isfinite(x); });
      return fits ? numbers : std::nullopt;
    };
    auto gamma = vector(Input(node, 1)), beta = vector(Input(node, 2));
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
  const Norm* NormBehind(int node) const {
    const auto found = std::ranges::find_if(norms_, [&](const auto& each) { return each.second.product == node; });
    return found == norms_.end() ? nullptr : &found->second;
  }

  const char* WhyNotRead(const Norm& norm, const ir::Uses::Use& use, const std::optional<Product>& product) const {
    constexpr const char* kOthers = "others than products with weights of their own read it";
    const ir::Node& node = rewrite_.node(use.node);
    const bool is_attention = node.Is("Attention", ops::kMicrosoftDomain);
    if (!product || (use.input != kA && (is_attention || use.input != kResidual))) return kOthers;
    if (std::ranges::count(node.inputs, rewrite_.node(norm.norm).outputs[0]) != 1) return "a product reads it twice";
    if (use.input == kResidual) {
      return NormBehind(use.node) != nullptr ? nullptr : "a product adds it whose result is not normalised";
    }
    if (product->residual >= 0) return "a product that has a residual reads it";
    if (product->sizes.k != norm.sizes.sizes.n) return kOthers;
    if (is_attention) return WhyNotApart(node, product->sizes.n);
    const Activation activation = product->sizes.activation;
    const bool ends = kernels::IsNoneOrRelu(activation) || activation == Activation::kGeluErf;
    return ends ? nullptr : "a product has another activation than ReLU and GELU by erf";
  }

  struct Heads {
    int64_t heads, hidden, v_hidden;
  };
  static Heads HeadsOf(const ir::Node& attention, int64_t columns) {
    const int64_t heads = IntAttribute(attention, "num_heads", 0);
    const auto* const sizes = ir::FindAttribute<std::vector<int64_t>>(attention, "qkv_hidden_sizes");
    if (sizes == nullptr || sizes->empty()) return {heads, columns / 3, columns / 3};
    if (sizes->size() != 3 || (*sizes)[0] != (*sizes)[1]) return {heads, 0, 0};
    return {heads, (*sizes)[0], (*sizes)[2]};
  }

  // Of an Attention that is to become a product and the regions' own.
  const char* WhyNotApart(const ir::Node& attention, int64_t columns) const {
    constexpr const char* kWhyNot = "an Attention has more than queries, keys, values and a mask of floats";
    constexpr size_t kMask = 3, kPast = 4, kPastLength = 6;
    for (const char* name : {"unidirectional", "do_rotary", "past_present_share_buffer", "rotary_embedding_dim"}) {
      if (IntAttribute(attention, name, 0) != 0) return kWhyNot;
    }
    const auto [heads, hidden, v_hidden] = HeadsOf(attention, columns);
    const bool divides = heads > 0 && hidden > 0 && hidden % heads == 0 && v_hidden > 0 && v_hidden % heads == 0 &&
                         2 * hidden + v_hidden == columns;
    const bool plain = divides && Input(attention, kMask) < 0 && Input(attention, kPast) < 0 &&
                       Input(attention, kPastLength) < 0 && attention.outputs.size() == 1 &&
                       graph_.value(attention.inputs[0]).dims.has_value();
    return plain ? nullptr : kWhyNot;
  }

  void FindReaders(Norm& norm) {
    const int rows = rewrite_.node(norm.norm).outputs[0];
    const auto miss = [&](const char* why) { rewrite_.Miss(norm.norm, why); };
    if (graph_.value(rows).output >= 0) return miss("it leaves the region");
    for (const ir::Uses::Use& use : rewrite_.match.uses().readers(rows)) {
      if (rewrite_.node(use.node).on_host) continue;  // asks for dimensions
      const std::optional<Product> product = ProductOf(use.node);
      if (const char* const why = WhyNotRead(norm, use, product)) return miss(why);
      norm.readers.push_back({use.node, use.input, *product});
    }
    norm.moves = std::ranges::any_of(norm.readers, [](const Reader& reader) { return reader.input == kA; });
    if (!norm.moves) miss("no product reads it");
  }

  void DescribeProducts(Norm& norm) {
    std::vector<ManyRowsProduct> products{norm.sizes.sizes};
    for (const Reader& reader : norm.readers) products.push_back(reader.product.sizes);
    norm.products = ops::NormProducts(std::move(products)).AsAttribute();
    const ir::Node& node = rewrite_.node(norm.norm);
    std::vector<ir::Dim> dims = graph_.value(node.inputs[0]).dims.value();
    dims.back() = {.size = norm.sizes.sizes.n / kernels::kMomentElems};
    dims.push_back({.size = 2});
    ir::Value moments{.name = graph_.value(node.outputs[0]).name, .type = DataType::kFloat, .dims = std::move(dims)};
    norm.moments = graph_.AddValue(std::move(moments));
  }

  // Of a product's residual, if that is kept.
  const Norm* KeptResidualOf(const Norm& norm) const {
    const auto found = norms_.find(norm.sizes.residual);
    return found != norms_.end() && found->second.moves ? &found->second : nullptr;
  }

  int AddVectors(const std::string& name, const std::vector<Numbers>& vectors) const {
    Numbers all;
    for (const Numbers& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
    const Shape dims{static_cast<int64_t>(vectors.size()), static_cast<int64_t>(vectors.front().size())};
    return graph_.AddConstant(name, ir::MakeNumbers(DataType::kFloat, dims, all));
  }

  Numbers BiasOf(const Product& product) const {
    return product.bias >= 0 ? *ir::NumbersOf(graph_, product.bias)
                             : Numbers(static_cast<size_t>(product.sizes.n), 0.0);
  }

  Replacement OfProduct(const Norm& norm) const {
    const ir::Node& product = rewrite_.node(norm.product);
    const ir::Node& rows = rewrite_.node(norm.norm);
    const Norm* const kept = KeptResidualOf(norm);
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
    fused.inputs.resize(kResidual + 1, -1);
    fused.inputs.insert(fused.inputs.end(), {rows.inputs[1], rows.inputs[2], AddVectors(product.name, vectors),
                                             kept != nullptr ? kept->moments : -1});
    const int sum = product.outputs[0];
    const bool is_read = graph_.value(sum).output >= 0 || rewrite_.match.uses().readers(sum).size() > 1;
    fused.outputs = {rows.outputs[0], norm.moments, is_read ? sum : -1};
    return {norm.product, std::move(fused), {}};
  }

  // What the scale and the shift of a normalisation make of each column of a product.
  std::vector<Numbers> ColumnsOf(const Norm& norm, const Product& product, const ir::Node& node) const {
    const auto n = static_cast<size_t>(product.sizes.n), k = static_cast<size_t>(product.sizes.k);
    const bool turned = IntAttribute(node, "transB", 0) != 0;
    std::vector<float> scaled(n, 0.0f), shifted(n, 0.0f);
    VisitType<kFloat16Types>(product.sizes.type, false, [&]<class T>() {
      const auto weights = graph_.value(node.inputs[kB]).constant.host<T>();
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

  Replacement OfReader(const Norm& norm, const Reader& of) const {
    const int index = of.node;
    const Product& product = of.product;
    const ir::Node& reader = rewrite_.node(index);
    ir::Node fused = rewrite_.Instead(index, ops::kFusedDomain, "NormedMatMul", 1);
    fused.inputs = {reader.inputs[kA], reader.inputs[kB],
                    product.bias,      -1,
                    norm.moments,      AddVectors(reader.name, ColumnsOf(norm, product, reader))};
    fused.attributes = {{"own_weights", int64_t{1}},
                        {"norm_products", norm.products},
                        {"epsilon", norm.epsilon},
                        {"norm_scale", norm.scale}};
    for (const char* name : {"activation", "transB"}) {
      const auto found = reader.attributes.find(std::string_view(name));
      if (found != reader.attributes.end()) fused.attributes.insert(*found);
    }
    if (!reader.Is("Attention", ops::kMicrosoftDomain)) return {index, std::move(fused), {}};
    const ir::Value& x = graph_.value(reader.inputs[kA]);
    std::vector<ir::Dim> dims = x.dims.value();
    dims.back() = {.size = product.sizes.n};
    ir::Value projected{.name = x.name, .type = x.type, .dims = std::move(dims)};
    fused.outputs = {graph_.AddValue(std::move(projected))};
    ir::Node attention = Attention(index, product.sizes.n, fused.outputs[0]);
    return {index, std::move(attention), {std::move(fused)}};
  }

  // The regions' own, of queries, keys and values side by side.
  ir::Node Attention(int index, int64_t columns, int projected) const {
    constexpr size_t kScoreBias = 5;
    const ir::Node& reader = rewrite_.node(index);
    const Heads of = HeadsOf(reader, columns);
    ir::Node attention = rewrite_.Instead(index, ops::kFusedDomain, "Attention", 1);
    attention.inputs = {projected, -1, -1, Input(reader, kScoreBias)};
    attention.attributes = {{"q_num_heads", of.heads}, {"kv_num_heads", of.heads}, {"head_size", of.hidden / of.heads}};
    const auto empty = reader.attributes.find("empty_is_nan");
    if (empty != reader.attributes.end()) attention.attributes.insert(*empty);
    if (const float scale = FloatAttribute(reader, "scale", 0); scale != 0) attention.attributes["scale"] = scale;
    return attention;
  }

  const Rewriter& rewrite_;
  const PassContext& context_;
  ir::Graph& graph_;
  std::map<int, Norm> norms_;  // by what they make
};

}  // namespace

void MoveNormsIntoProducts(ir::Graph& graph, const PassContext& context) {
  if (context.settings.norm_path != NormPath::kAuto) return;
  const Rewriter rewrite(graph, context, Fusion::kNormProducts);
  Mover(rewrite, context).Move();
}

}  // namespace cudaep::graph
