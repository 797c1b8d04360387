#include "graph/pass/nbits_projections.h"

#include <array>
#include <cstring>

#include "graph/pass/nbits_inputs.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using namespace nbits;

constexpr size_t kPartCount = 3;

class Joiner {
 public:
  Joiner(const Rewriter& rewrite, int index) : rewrite_(rewrite), graph_(rewrite.graph), index_(index) {}

  void Join() {
    const ir::Node& attention = rewrite_.node(index_);
    for (size_t i = 0; i < kPartCount; ++i) {
      const int value = InputOf(attention, i);
      const ir::Node* const maker = value < 0 ? nullptr : rewrite_.match.Maker(value);
      if (maker == nullptr || !maker->Is("MatMulNBits", ops::kMicrosoftDomain)) return;
      parts_[i] = maker;
      columns_[i] = IntAttribute(*maker, "N", 0);
    }
    if (const char* const why = WhyApart(attention)) return rewrite_.Miss(index_, why);
    ir::Node product = *parts_[0];
    product.sources.clear();
    product.attributes["N"] = columns_[0] + columns_[1] + columns_[2];
    product.inputs.resize(kInputs, -1);
    for (const size_t input : {kB, kScales, kZeroPoints, kBias}) {
      if (product.inputs[input] >= 0) product.inputs[input] = Joined(input);
    }
    std::vector<ir::Dim> dims = *graph_.value(product.outputs[0]).dims;
    dims.back() = {.size = std::get<int64_t>(product.attributes["N"])};
    ir::Value whole = graph_.value(product.outputs[0]);
    whole.dims = std::move(dims);
    product.outputs = {graph_.AddValue(std::move(whole))};
    ir::Node fused = attention;
    fused.sources.clear();
    fused.inputs[0] = product.outputs[0];
    fused.inputs[1] = fused.inputs[2] = -1;
    rewrite_.Replace(index_, std::move(fused), {std::move(product)});
  }

 private:
  // Null: they are not.
  const char* WhyApart(const ir::Node& attention) const {
    const int64_t heads = IntAttribute(attention, "num_heads", 0),
                  kv_heads = IntAttribute(attention, "kv_num_heads", 0);
    const ir::Node& first = *parts_[0];
    if (heads <= 0 || kv_heads <= 0 || columns_[0] % heads != 0 || columns_[1] != columns_[0] / heads * kv_heads ||
        columns_[2] != columns_[1] || !graph_.value(first.outputs[0]).dims) {
      return "its heads are not known to have one size";
    }
    for (const ir::Node* const part : parts_) {
      if (part->inputs[kA] != first.inputs[kA]) return "its products are of two tensors";
      if (!rewrite_.match.IsPrivate(part->outputs[0])) return "others read one of its products";
      if (InputOf(*part, kGroups) >= 0) return "a product of it has groups of weights";
      for (const char* name : {"K", "bits", "block_size", "weight_prepacked"}) {
        if (IntAttribute(*part, name, 0) != IntAttribute(first, name, 0)) return "its products' weights have two forms";
      }
      for (const size_t input : {kB, kScales, kZeroPoints, kBias}) {
        const int value = InputOf(*part, input), of_first = InputOf(first, input);
        if ((value < 0) != (of_first < 0)) return "only one of its products has zero points or a bias";
        if (value < 0) continue;
        if (!graph_.value(value).is_constant()) return "its weights are no constants";
        if (graph_.value(value).type != graph_.value(of_first).type) return "its products' weights have two forms";
      }
    }
    return nullptr;
  }

  // All of them begin with the columns, so one follows the other.
  int Joined(size_t input) const {
    const ir::Value& first = graph_.value(parts_[0]->inputs[input]);
    ops::HostTensor joined{.type = first.type, .dims = {}, .data = {}};
    int64_t elems = 0;
    for (const ir::Node* const part : parts_) {
      const auto& constant = graph_.value(part->inputs[input]).constant;
      const auto* const from = static_cast<const std::byte*>(constant.data);
      joined.data.insert(joined.data.end(), from, from + constant.bytes());
      elems += constant.elems();
    }
    joined.dims = Shape{elems};
    return graph_.AddConstant(first.name, std::move(joined));
  }

  const Rewriter& rewrite_;
  ir::Graph& graph_;
  int index_;
  std::array<const ir::Node*, kPartCount> parts_ = {};
  std::array<int64_t, kPartCount> columns_ = {};
};

}  // namespace

void JoinNBitsProjections(const Rewriter& rewrite, int index) {
  const ir::Node& node = rewrite.node(index);
  if (!node.on_host && node.Is("GroupQueryAttention", ops::kMicrosoftDomain)) Joiner(rewrite, index).Join();
}

}  // namespace cudaep::graph
