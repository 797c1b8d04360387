#include "graph/ir/dims.h"

#include <algorithm>
#include <utility>

#include "graph/ir/constants.h"
#include "graph/ir/dim_rules.h"
#include "ops/registry.h"

namespace cudaep::graph::ir {
namespace {

class Inference {
 public:
  explicit Inference(Graph& graph) : graph_(graph), rules_(graph), overruled_(graph.values.size()) {}

  KnownElements Run() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].is_constant()) ReadConstant(v);
      if (graph_.values[v].input >= 0) NameUnknown(static_cast<int>(v));
    }
    for (const Node& node : graph_.nodes) Visit(node);
    // Sizes that a model computes ahead of the images that have them; of such that follow from these, as often.
    for (int again = 0; again < 3 && rules_.symbols().TakeNews(); ++again) {
      for (const Node& node : graph_.nodes) Visit(node);
    }
    return rules_.TakeElements();
  }

 private:
  void ReadConstant(size_t v) {
    const ops::TensorView& view = graph_.values[v].constant;
    if (view.rank > 1 || view.elems() > kMostElements) return;
    const auto numbers = IntsOf(graph_, static_cast<int>(v));
    if (!numbers) return;
    Elements elements;
    for (const int64_t number : *numbers) elements.push_back(Number(number));
    rules_.Follow(static_cast<int>(v), std::move(elements));
  }

  void Visit(const Node& node) {
    std::vector<const Elements*> inputs;
    inputs.reserve(node.inputs.size());
    for (const int input : node.inputs) inputs.push_back(rules_.ElementsOf(input));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] < 0) continue;
      const MaybeDims inferred = rules_.Of(node, i);
      Value& value = graph_.value(node.outputs[i]);
      // What hosts state of a result may follow from what they state of its inputs.
      if (DimRules::Overrules(node) ||
          std::ranges::any_of(node.inputs, [&](int v) { return v >= 0 && IsOverruled(v); })) {
        Overrule(node.outputs[i], inferred, !node.Is("GatherND", ops::kMicrosoftDomain));
      } else if (inferred) {
        Take(value, *inferred);
      }
      NameUnknown(node.outputs[i]);
    }
    if (node.outputs.empty() || node.outputs[0] < 0) return;
    const Value& output = graph_.value(node.outputs[0]);
    constexpr DataTypeSet kFollowed{DataType::kInt64, DataType::kInt32, DataType::kBool};
    if (!output.dims || output.dims->size() > 2 || !kFollowed.Contains(output.type)) return;
    auto elements = FollowElements(graph_, node, inputs, rules_.symbols());
    if (elements && elements->size() <= kMostElements) {
      rules_.Follow(node.outputs[0], *std::move(elements));
    }
  }

  // A number that follows from the inputs is what kernels will make, whatever the model states: ONNX's own inference
  // knows no Slice backwards without an end. A symbol that follows is better than another one, and no better than a
  // number.
  static void Take(Value& value, const DimList& inferred) {
    if (!value.dims || value.dims->size() != inferred.size()) {
      value.dims = inferred;
      return;
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      Dim& dim = (*value.dims)[i];
      if (inferred[i].known() || (!dim.known() && !inferred[i].symbol.empty())) dim = inferred[i];
    }
  }

  bool IsOverruled(int value) const { return overruled_[static_cast<size_t>(value)]; }

  // Numbers that were stated, and are not what follows, are gone.
  void Overrule(int index, const MaybeDims& inferred, bool has_rank) {
    Value& value = graph_.value(index);
    const MaybeDims stated = std::exchange(value.dims, inferred);
    if (!inferred && stated && has_rank) value.dims = DimList(stated->size());
    const auto is_stated = [&](size_t i) {
      return value.dims && i < value.dims->size() && (*value.dims)[i].size == (*stated)[i].size;
    };
    bool holds = stated && value.dims && value.dims->size() == stated->size();
    for (size_t i = 0; holds && i < stated->size(); ++i) holds = !(*stated)[i].known() || is_stated(i);
    if (!holds) overruled_[static_cast<size_t>(index)] = true;
  }

  void NameUnknown(int index) {
    Value& value = graph_.value(index);
    if (!value.dims) return;
    for (size_t i = 0; i < value.dims->size(); ++i) {
      Dim& dim = (*value.dims)[i];
      if (!dim.known() && dim.symbol.empty())
        dim = Symbols::DimOf(rules_.symbols().Named("value", int64_t{index}, static_cast<int64_t>(i)));
    }
  }

  Graph& graph_;
  DimRules rules_;
  std::vector<bool> overruled_;  // values of which something else was stated
};

}  // namespace

KnownElements StateDims(Graph& graph) { return Inference(graph).Run(); }

}  // namespace cudaep::graph::ir
