#include "graph/pass/product_affine.h"

#include <algorithm>

#include "graph/ir/constants.h"
#include "graph/pass/affine.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// What follows a product as far as its last scale.
struct Tail {
  Affine affine;
  std::vector<int> nodes = {};  // that scale and shift
  // Whether others than these need a value before the last of them, if only for its dimensions.
  bool is_read_between = false;
};

class Folder {
 public:
  explicit Folder(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Fold(int index) const {
    const ir::Node& product = rewrite_.node(index);
    const bool is_gemm = product.Is("Gemm");
    if (product.on_host || !(is_gemm || product.Is("MatMul")) || rewrite_.IsTaken(index)) return;
    const int w = product.inputs[1];
    const ops::TensorView matrix = graph_.value(w).constant;  // a copy: values move when constants are added
    if (!matrix.present() || matrix.rank != 2 || rewrite_.match.uses().readers(w).size() != 1) return;
    if (FloatAttribute(product, "alpha", 1) != 1 || FloatAttribute(product, "beta", 1) != 1) return;
    const bool transposed = is_gemm && IntAttribute(product, "transB", 0) != 0;
    const int64_t columns = matrix.dim[transposed ? 0 : 1];
    if (matrix.elems() == 0 || ColumnsOf(product.outputs[0]) != columns) return;
    const std::optional<Tail> tail = TailOf(index, columns);
    if (!tail) return;
    const int last = tail->nodes.back();
    if (tail->is_read_between && graph_.value(rewrite_.node(last).outputs[0]).output >= 0) return;
    std::optional<ChannelWeights> weights = WeightsOf(product, static_cast<size_t>(columns), !transposed);
    if (!weights) return rewrite_.Miss(last, "the product's bias is no constant of one value a column");
    if (!Apply(tail->affine, matrix.type, *weights)) {
      return rewrite_.Miss(last, "a column's weights would vanish or leave their type's range");
    }
    const std::string name = graph_.value(w).name;
    const int scaled =
        rewrite_.graph.AddConstant(name, ir::MakeNumbers(matrix.type, Shape(matrix.dims()), weights->numbers));
    const int bias = rewrite_.graph.AddConstant(name, ir::MakeNumbers(matrix.type, Shape{columns}, weights->bias));
    Place(index, *tail, scaled, bias);
  }

 private:
  int64_t ColumnsOf(int value) const {
    const auto& dims = graph_.value(value).dims;
    return dims && !dims->empty() ? dims->back().size : kUnknownDim;
  }

  // Where the columns are behind a node that moves rows and no more: before the last so many dimensions. They are
  // before the last `behind` of `value`.
  std::optional<int> ColumnsBehind(const ir::Node& node, int value, int behind, int64_t columns) const {
    if (node.on_host || node.inputs[0] != value) return std::nullopt;
    const auto* const perm = ir::FindAttribute<std::vector<int64_t>>(node, "perm");
    if (node.Is("Transpose") && perm != nullptr) {
      const auto from = static_cast<int64_t>(perm->size()) - 1 - behind;
      return static_cast<int>(perm->end() - std::ranges::find(*perm, from)) - 1;
    }
    const bool reshapes = node.Is("Flatten") || node.Is("Reshape") || node.Is("Squeeze") || node.Is("Unsqueeze");
    return reshapes && behind == 0 && ColumnsOf(node.outputs[0]) == columns ? std::optional(0) : std::nullopt;
  }

  std::optional<Tail> TailOf(int index, int64_t columns) const {
    const auto count = static_cast<size_t>(columns);
    Affine affine{std::vector<double>(count, 1), std::vector<double>(count, 0)};
    std::vector<int> nodes;
    std::optional<Tail> tail;
    bool is_read_between = false;
    int value = rewrite_.node(index).outputs[0], behind = 0;
    for (int next = NextOf(value); next >= 0; next = NextOf(value)) {
      const ir::Node& node = rewrite_.node(next);
      const std::optional<int> moved = ColumnsBehind(node, value, behind, columns);
      const auto rank = static_cast<int>(graph_.value(value).dims->size());
      const auto then = moved ? std::nullopt : AffineOf(graph_, node, value, count, rank, behind, rewrite_.settings());
      if ((!moved && !then) || !graph_.value(node.outputs[0]).dims) break;
      is_read_between = is_read_between || moved || !rewrite_.match.IsReadOnce(value);
      value = node.outputs[0];
      behind = moved.value_or(behind);
      if (!then) continue;
      nodes.push_back(next);
      for (size_t c = 0; c < count; ++c) {
        affine.scale[c] *= then->scale[c];
        affine.shift[c] = affine.shift[c] * then->scale[c] + then->shift[c];
      }
      if (node.Is("BatchNormalization") || !IsOfOneNumber(*then)) tail = Tail{affine, nodes, is_read_between};
    }
    return tail;
  }
  // No scale of Add and Sub; one of all columns together is others' matter: attention has one.
  static bool IsOfOneNumber(const Affine& affine) {
    return std::ranges::all_of(affine.scale, [&](double scale) { return scale == affine.scale.front(); });
  }
  int NextOf(int value) const {
    const int next = rewrite_.match.OnlyReader(value);
    return next >= 0 && !rewrite_.IsTaken(next) ? next : -1;
  }

  std::optional<ChannelWeights> WeightsOf(const ir::Node& product, size_t columns, bool channels_last) const {
    auto numbers = ir::NumbersOf(graph_, product.inputs[1]);
    const int c = product.Is("Gemm") ? InputOf(product, 2) : -1;
    auto bias = c >= 0 ? ir::NumbersOf(graph_, c) : std::vector<double>(columns, 0);
    if (!numbers || !bias || bias->size() != columns || (c >= 0 && !IsVectorOfLast(graph_, c, product.outputs[0]))) {
      return std::nullopt;
    }
    return ChannelWeights{*std::move(numbers), *std::move(bias), channels_last};
  }

  // Where the last node stood, or where the product did, so that what moves rows stays behind it.
  void Place(int index, const Tail& tail, int weights, int bias) const {
    const ir::Node& product = rewrite_.node(index);
    const int at = tail.is_read_between ? index : tail.nodes.back();
    ir::Node folded = product, sum = rewrite_.Instead(at, ops::kOnnxDomain, "Add", 14);
    folded.sources.clear();
    folded.inputs = {product.inputs[0], weights};
    if (tail.is_read_between) sum.sources = SourcesOf(tail.nodes);
    bool done = false;
    if (product.Is("Gemm")) {
      folded.inputs.push_back(bias);
      folded.outputs = sum.outputs;
      folded.sources = sum.sources;
      done = rewrite_.Replace(at, std::move(folded));
    } else {
      ir::Value value = graph_.value(product.outputs[0]);
      value.output = -1;
      folded.outputs = {rewrite_.graph.AddValue(std::move(value))};
      sum.inputs = {folded.outputs[0], bias};
      std::vector<ir::Node> before;
      before.push_back(std::move(folded));
      done = rewrite_.Replace(at, std::move(sum), std::move(before));
    }
    if (!done || !tail.is_read_between) return;
    for (const int node : tail.nodes) {
      const std::vector<int>& operands = rewrite_.node(node).inputs;
      rewrite_.Redirect(node, operands[graph_.value(operands[0]).is_constant() ? 1 : 0]);
    }
  }

  std::vector<std::string> SourcesOf(const std::vector<int>& nodes) const {
    std::vector<std::string> sources;
    for (const int node : nodes) {
      const std::vector<std::string>& own = rewrite_.node(node).sources;
      sources.insert(sources.end(), own.begin(), own.end());
    }
    return sources;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
};

}  // namespace

void FoldIntoProducts(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kConvAffine);
  const Folder folder(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) folder.Fold(n);
  rewrite.PlaceNodesInFront();
}

}  // namespace cudaep::graph
