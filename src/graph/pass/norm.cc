#include "graph/pass/norm.h"

#include <algorithm>
#include <array>

#include "graph/ir/constants.h"
#include "graph/pass/rewrite.h"

namespace cudaep::graph {
namespace {

// centred / sqrt(mean [+ epsilon]), where `mean` is that of the squares of `centred`.
struct Core {
  int centred = -1;
  double epsilon = 0;
};

class NormMatch {
 public:
  explicit NormMatch(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Fuse(int index) const {
    const std::optional<Core> core = CoreOf(rewrite_.node(index));
    if (!core) return;
    const int x = CentredOf(core->centred);
    ir::Node norm{.op_type = x >= 0 ? "LayerNormalization" : "RMSNormalization", .since_version = x >= 0 ? 17 : 23};
    norm.inputs = {x >= 0 ? x : core->centred};
    norm.attributes = {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(core->epsilon)}};
    Extend(index, std::move(norm));
  }

 private:
  std::optional<Core> CoreOf(const ir::Node& node) const {
    if (node.on_host || node.inputs.size() != 2) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const int centred = node.inputs[1 - i];
      int spread = -1;
      if (node.Is("Mul")) spread = RootUnder(node.inputs[i]);
      if (node.Is("Div") && i == 1) spread = Root(node.inputs[1]);
      if (spread < 0) continue;
      Core core{.centred = centred};
      const int mean = match_.PlusScalar(spread, &core.epsilon);
      if (!IsSquareOf(MeanOf(mean < 0 ? spread : mean), centred)) continue;
      // What is left of equal elements without their mean, and divided by itself, is rounding.
      if (core.epsilon > 0 || (mean < 0 && CentredOf(centred) < 0)) return core;
    }
    return std::nullopt;
  }

  // y of sqrt(y).
  int Root(int value) const {
    if (const ir::Node* const sqrt = match_.Maker(value, "Sqrt")) return sqrt->inputs[0];
    const ir::Node* const pow = match_.Maker(value, "Pow");
    return pow != nullptr && match_.IsScalar(pow->inputs[1], 0.5) ? pow->inputs[0] : -1;
  }

  // y of 1 / sqrt(y).
  int RootUnder(int value) const {
    if (const ir::Node* const one = match_.Maker(value, "Reciprocal")) return Root(one->inputs[0]);
    if (const ir::Node* const div = match_.Maker(value, "Div")) {
      return match_.IsScalar(div->inputs[0], 1) ? Root(div->inputs[1]) : -1;
    }
    const ir::Node* const pow = match_.Maker(value, "Pow");
    return pow != nullptr && match_.IsScalar(pow->inputs[1], -0.5) ? pow->inputs[0] : -1;
  }

  // y of the mean of y over the last axis, which is kept.
  int MeanOf(int value) const {
    const ir::Node* const mean = match_.Maker(value, "ReduceMean");
    if (mean == nullptr || IntAttribute(*mean, "keepdims", 1) != 1 || !graph_.value(mean->inputs[0]).dims) return -1;
    const auto axes = match_.IntsOf(*mean, "axes", 1);
    const auto rank = static_cast<int64_t>(graph_.value(mean->inputs[0]).dims->size());
    return axes && axes->size() == 1 && (axes->front() == -1 || axes->front() == rank - 1) ? mean->inputs[0] : -1;
  }

  bool IsSquareOf(int value, int of) const {
    const std::array<int, 2> twice{of, of};
    return value >= 0 && match_.Factors(value).Is(1, twice, 0);
  }

  // x of x - mean(x).
  int CentredOf(int value) const {
    const ir::Node* const sub = match_.Maker(value, "Sub");
    return sub != nullptr && MeanOf(sub->inputs[1]) == sub->inputs[0] ? sub->inputs[0] : -1;
  }

  // From the core on, the scale (or ones), the bias, and a cast back where the input was cast.
  void Extend(int index, ir::Node norm) const {
    const ir::Node* const cast = match_.Maker(norm.inputs[0], "Cast");
    const bool was_cast = cast != nullptr && kFloat16Types.Contains(TypeOf(cast->inputs[0]));
    int last = index;
    const auto is_back = [&](int reader) {
      return was_cast && reader >= 0 && rewrite_.node(reader).Is("Cast") &&
             TypeOf(rewrite_.node(reader).outputs[0]) == TypeOf(cast->inputs[0]);
    };
    const auto step = [&](const char* op) {
      int reader = match_.OnlyReader(Result(last));
      const int at = is_back(reader) ? reader : last;
      if (at != last) reader = match_.OnlyReader(Result(at));
      const ir::Node* const next = reader < 0 ? nullptr : &rewrite_.node(reader);
      const int other = next != nullptr && next->Is(op) ? Matcher::Other(*next, Result(at)) : -1;
      if (other < 0 || !IsVectorOfLast(graph_, other, norm.inputs[0])) return;
      norm.inputs.push_back(other);
      last = reader;
    };
    step("Mul");
    if (norm.inputs.size() < 2) {
      const ir::Dim& columns = graph_.value(norm.inputs[0]).dims->back();
      if (!columns.known()) return rewrite_.Miss(index, "no scale of the size of the last dimension follows");
      const DataType type = TypeOf(is_back(match_.OnlyReader(Result(index))) ? cast->inputs[0] : Result(index));
      const std::vector<double> ones(static_cast<size_t>(columns.size), 1);
      norm.inputs.push_back(rewrite_.graph.AddConstant("ones", ir::MakeNumbers(type, Shape{columns.size}, ones)));
    }
    if (norm.op_type == "LayerNormalization") step("Add");
    if (is_back(match_.OnlyReader(Result(last))) && TypeOf(norm.inputs[1]) == TypeOf(cast->inputs[0])) {
      last = match_.OnlyReader(Result(last));
    }
    if (was_cast && TypeOf(Result(last)) == TypeOf(cast->inputs[0])) norm.inputs[0] = cast->inputs[0];
    const DataType type = TypeOf(norm.inputs[0]);
    const bool of_one_type = TypeOf(Result(last)) == type &&
                             std::ranges::all_of(norm.inputs, [&](int value) { return TypeOf(value) == type; });
    if (!of_one_type) return rewrite_.Miss(last, "its operands have more than one type");
    if (!graph_.SameDims(norm.inputs[0], Result(last))) {  // constants may have more dimensions than what they scale
      return rewrite_.Miss(last, "its result is not stated to have its operand's dimensions");
    }
    norm.name = rewrite_.node(last).name;
    norm.outputs = rewrite_.node(last).outputs;
    rewrite_.Replace(last, std::move(norm));
  }

  DataType TypeOf(int value) const { return graph_.value(value).type; }
  int Result(int index) const { return rewrite_.node(index).outputs[0]; }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void FuseNorms(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kNorm);
  const NormMatch match(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) match.Fuse(n);
}

}  // namespace cudaep::graph
