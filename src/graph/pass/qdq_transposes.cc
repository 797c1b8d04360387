#include "graph/pass/qdq_transposes.h"

#include <algorithm>
#include <numeric>

#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using Perm = std::vector<int64_t>;
constexpr size_t kA = 0, kB = 3;
constexpr size_t kNumbers[] = {1, 2, 4, 5, 6, 7};  // scales and zero points

class Turner {
 public:
  explicit Turner(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph) {}

  void Visit(int index) const {
    const ir::Node& product = rewrite_.node(index);
    if (product.on_host || !product.Is("QLinearMatMul")) return;
    const auto &a = graph_.value(product.inputs[kA]).dims, &b = graph_.value(product.inputs[kB]).dims;
    if (!a || !b || a->size() != b->size() || graph_.value(product.inputs[kB]).is_constant()) return;
    for (const size_t input : kNumbers) {
      if (!IsOneElement(product.inputs[input])) return;
    }
    Perm same(a->size());
    std::iota(same.begin(), same.end(), 0);
    Perm a_perm = same, b_perm = same, y_perm = same;
    const int64_t last = static_cast<int64_t>(same.size()) - 1;
    ir::Node made = product;
    const auto read = [&](size_t input, Perm& perm, auto may_be) {
      const int maker = rewrite_.match.MakerIndex(product.inputs[input]);
      const auto found = maker < 0 ? std::nullopt : PermOf(maker);
      if (!found || found->size() != same.size() || !rewrite_.match.IsPrivate(product.inputs[input])) return;
      if (!may_be(*found)) return;
      perm = *found;
      made.inputs[input] = rewrite_.node(maker).inputs[0];
    };
    read(kA, a_perm, [&](const Perm& perm) { return perm.back() == last; });
    read(kB, b_perm, [&](const Perm& perm) { return perm.back() == last || perm[perm.size() - 2] == last; });
    int end = index;
    const int next = rewrite_.match.OnlyReader(product.outputs[0]);
    if (const auto found = next < 0 ? std::nullopt : PermOf(next); found && found->back() == last) {
      y_perm = *found;
      end = next;
    }
    if (a_perm == same && b_perm == same && y_perm == same) return;
    ir::Node turned = rewrite_.Instead(end, ops::kFusedDomain, "QuantizedMatMul", 1);
    turned.inputs = made.inputs;
    turned.attributes = {{"a_perm", a_perm}, {"b_perm", b_perm}, {"y_perm", y_perm}};
    if (!rewrite_.Replace(end, std::move(turned))) rewrite_.Miss(index, "no kernel takes the transposed codes");
  }

 private:
  // Or left out, as zero points may be.
  bool IsOneElement(int value) const {
    if (value < 0) return true;
    const auto& dims = graph_.value(value).dims;
    return dims && std::ranges::all_of(*dims, [](const ir::Dim& dim) { return dim.size == 1; });
  }

  std::optional<Perm> PermOf(int index) const {
    const ir::Node& node = rewrite_.node(index);
    const Perm* const perm = ir::FindAttribute<Perm>(node, "perm");
    if (node.on_host || !node.Is("Transpose") || perm == nullptr) return std::nullopt;
    return *perm;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
};

}  // namespace

void MultiplyTransposed(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kQdq);
  const Turner turner(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) turner.Visit(n);
}

}  // namespace cudaep::graph
