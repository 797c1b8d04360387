#include "graph/pass/group_norm.h"

#include <algorithm>
#include <cstring>

#include "core/shape.h"
#include "core/strings.h"
#include "graph/ir/constants.h"
#include "graph/pass/activation_match.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

constexpr DataTypeSet kTypes{DataType::kFloat, DataType::kFloat16, DataType::kBFloat16};

class GroupNormMatch {
 public:
  explicit GroupNormMatch(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Fuse(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || rewrite_.IsTaken(index)) return;
    if (node.Is("InstanceNormalization")) FuseSpelled(index, node);
    if (node.Is("GroupNormalization")) FuseNode(index, node);
  }

 private:
  // Reshape to [batch, groups, the rest], InstanceNormalization by ones and zeros, Reshape back, Mul, Add.
  void FuseSpelled(int index, const ir::Node& norm) const {
    const ir::Node* const split = match_.Maker(norm.inputs[0], "Reshape");
    const int back = match_.OnlyReader(norm.outputs[0]);
    if (split == nullptr || back < 0 || !rewrite_.node(back).Is("Reshape")) return;
    const int x = split->inputs[0], normal = rewrite_.node(back).outputs[0];
    const auto &dims = graph_.value(x).dims, &grouped = graph_.value(norm.inputs[0]).dims;
    if (!kTypes.Contains(TypeOf(x)) || !dims || dims->size() < 2 || !(*dims)[1].known()) return;
    if (!grouped || grouped->size() != 3 || !(*grouped)[0].Equals((*dims)[0]) || !(*grouped)[1].known()) {
      return rewrite_.Miss(index, "what it reads is not stated to be [batch, groups, the rest]");
    }
    const int64_t channels = (*dims)[1].size, groups = (*grouped)[1].size;
    if (groups < 1 || channels % groups != 0) {
      return rewrite_.Miss(index, StrCat(channels, " channels are no multiple of ", groups, " groups"));
    }
    if (!graph_.SameDims(x, normal))
      return rewrite_.Miss(back, "its result is not stated to have the image's dimensions");
    if (!IsFilled(norm.inputs[1], 1) || !IsFilled(norm.inputs[2], 0)) {
      return rewrite_.Miss(index, "scale and bias of groups are not ones and zeros");
    }
    int last = back;
    const int scale = Follow("Mul", x, last), bias = Follow("Add", x, last);
    const auto vector = [&](int given, double otherwise) {
      return given >= 0 ? Reshaped(given, channels) : Filled(x, channels, otherwise);
    };
    Place(last, x, vector(scale, 1), vector(bias, 0), groups, FloatAttribute(norm, "epsilon", 1e-5f));
  }

  void FuseNode(int index, const ir::Node& norm) const {
    const int x = norm.inputs[0];
    const auto& dims = graph_.value(x).dims;
    if (!kTypes.Contains(TypeOf(x)) || IntAttribute(norm, "stash_type", 1) != 1) return;
    if (!dims || dims->size() < 2 || !(*dims)[1].known()) return rewrite_.Miss(index, "its channels are not stated");
    const int64_t channels = (*dims)[1].size, groups = IntAttribute(norm, "num_groups", 0);
    if (groups < 1 || channels % groups != 0) {
      return rewrite_.Miss(index, StrCat(channels, " channels are no multiple of ", groups, " groups"));
    }
    int scale = norm.inputs[1], bias = norm.inputs[2];
    if (norm.since_version < 21 && groups != channels) {  // one of each for a group
      if (!graph_.value(scale).is_constant() || !graph_.value(bias).is_constant()) {
        return rewrite_.Miss(index, "scale and bias of groups are no constants");
      }
      if (graph_.value(scale).constant.elems() != groups || graph_.value(bias).constant.elems() != groups) {
        return rewrite_.Miss(index, StrCat("scale and bias do not have one value for each of ", groups, " groups"));
      }
      scale = OfChannels(scale, channels, groups), bias = OfChannels(bias, channels, groups);
    }
    Place(index, x, scale, bias, groups, FloatAttribute(norm, "epsilon", 1e-5f));
  }

  // Puts the operator in the place of node `last`, or of the activation behind it.
  void Place(int last, int x, int scale, int bias, int64_t groups, float epsilon) const {
    const auto activation = MatchActivation(graph_, match_.uses(), Result(last), rewrite_.settings());
    const bool swish = activation && activation->activation == Activation::kSilu &&
                       graph_.SameDims(x, Result(activation->nodes.back()));
    if (swish) last = activation->nodes.back();
    ir::Node fused = rewrite_.Instead(last, ops::kFusedDomain, "GroupNorm", 1);
    fused.inputs = {x, scale, bias};
    fused.attributes = {{"groups", groups},
                        {"epsilon", epsilon},
                        {"activation", int64_t{swish ? 1 : 0}},
                        {"channels_last", int64_t{0}}};
    rewrite_.Replace(last, std::move(fused));
  }

  // The constant, a value for each channel of the image x, of the node of this operator that alone reads what `last`
  // makes, which becomes that node; -1: there is no such node.
  int Follow(const char* op, int x, int& last) const {
    const int reader = match_.OnlyReader(Result(last));
    if (reader < 0 || !rewrite_.node(reader).Is(op)) return -1;
    const int other = Matcher::Other(rewrite_.node(reader), Result(last));
    if (other < 0 || !IsOfChannels(other, x) || !graph_.SameDims(x, Result(reader))) {
      rewrite_.Miss(reader, "it reads no constant of one value for each channel");
      return -1;
    }
    last = reader;
    return other;
  }

  bool IsOfChannels(int value, int x) const {
    const ir::Value& v = graph_.value(value);
    if (!v.is_constant() || v.type != TypeOf(x)) return false;
    const auto& dims = *graph_.value(x).dims;
    const ops::TensorView& constant = v.constant;
    const int ahead = static_cast<int>(dims.size()) - constant.rank;
    if (ahead < 0 || ahead > 1 || constant.elems() != dims[1].size) return false;
    return constant.dim[1 - ahead] == dims[1].size;
  }

  bool IsFilled(int value, double wanted) const {
    const auto numbers = ir::NumbersOf(graph_, value);
    return numbers && std::ranges::all_of(*numbers, [&](double number) { return number == wanted; });
  }

  int Filled(int like, int64_t channels, double number) const {
    const std::vector<double> numbers(static_cast<size_t>(channels), number);
    return rewrite_.graph.AddConstant(graph_.value(like).name, ir::MakeNumbers(TypeOf(like), {channels}, numbers));
  }

  // The same elements, each repeated for the channels of its group, in one dimension.
  int OfChannels(int value, int64_t channels, int64_t groups) const {
    const ops::TensorView& from = graph_.value(value).constant;
    const size_t element = SizeOf(from.type), repeats = static_cast<size_t>(channels / groups);
    ops::HostTensor tensor{.type = from.type, .dims = Shape{channels}, .data = {}};
    tensor.data.resize(static_cast<size_t>(channels) * element);
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
      std::memcpy(&tensor.data[c * element], static_cast<const std::byte*>(from.data) + c / repeats * element, element);
    }
    return rewrite_.graph.AddConstant(graph_.value(value).name, std::move(tensor));
  }
  int Reshaped(int value, int64_t channels) const { return OfChannels(value, channels, channels); }

  DataType TypeOf(int value) const { return graph_.value(value).type; }
  int Result(int index) const { return rewrite_.node(index).outputs[0]; }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void FuseGroupNorms(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kGroupNorm);
  const GroupNormMatch match(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) match.Fuse(n);
}

}  // namespace cudaep::graph
