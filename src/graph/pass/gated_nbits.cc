#include "graph/pass/gated_nbits.h"

#include "graph/pass/activation_match.h"
#include "graph/pass/nbits_inputs.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

using namespace nbits;

struct Size {
  const char* name;
  int64_t fallback;
};
constexpr Size kSizes[] = {{"K", 0}, {"N", 0}, {"bits", 4}, {"block_size", 0}};

// At a node that may be the last one of the pattern.
class Fuser {
 public:
  Fuser(const Rewriter& rewrite, int index) : rewrite_(rewrite), match_(rewrite.match), index_(index) {}

  void Fuse() const {
    const ir::Node& last = rewrite_.node(index_);
    if (last.Is("SwiGLU", ops::kMicrosoftDomain)) return FuseSwiGlu(last);
    if (last.Is("Mul") && !FuseFactors(last.inputs[0], last.inputs[1])) FuseFactors(last.inputs[1], last.inputs[0]);
  }

 private:
  const ir::Node* Product(int value) const {
    const ir::Node* const maker = match_.Maker(value);
    return maker != nullptr && maker->Is("MatMulNBits", ops::kMicrosoftDomain) ? maker : nullptr;
  }

  void FuseSwiGlu(const ir::Node& last) const {
    const ir::Node *const first = Product(last.inputs[0]), *const second = Product(InputOf(last, 1));
    const bool is_plain = FloatAttribute(last, "activation_alpha", 1) == 1 &&
                          FloatAttribute(last, "activation_beta", 0) == 0 && FloatAttribute(last, "limit", 0) <= 0 &&
                          IntAttribute(last, "round_activation", 0) == 0;
    if (is_plain && first != nullptr && second != nullptr && first != second) Join(*first, *second, Activation::kSilu);
  }

  // Whether the first is an activation's result, and both are made by products.
  bool FuseFactors(int activated, int plain) const {
    const ir::Node *const end = match_.Maker(activated), *const second = Product(plain);
    if (end == nullptr || second == nullptr) return false;
    for (const int value : end->inputs) {
      const ir::Node* const first = Product(value);
      if (first == nullptr || first == second) continue;
      const auto found = MatchActivationOf(rewrite_, value);
      if (!found || found->nodes.back() != match_.MakerIndex(activated)) return false;
      if (ParameterCount(found->activation) != 0) {
        rewrite_.Miss(index_, "its activation has parameters");
      } else {
        Join(*first, *second, found->activation);
      }
      return true;
    }
    return false;
  }

  void Join(const ir::Node& first, const ir::Node& second, Activation activation) const {
    if (const char* const why = WhyApart(first, second)) return rewrite_.Miss(index_, why);
    ir::Node fused = rewrite_.Instead(index_, ops::kFusedDomain, "GatedMatMulNBits", 1);
    fused.inputs = {first.inputs[kA]};
    for (const ir::Node* const product : {&first, &second}) {
      for (const size_t input : {kB, kScales, kZeroPoints}) fused.inputs.push_back(InputOf(*product, input));
    }
    SetActivation(activation, {}, fused);
    for (const auto& [name, fallback] : kSizes) fused.attributes[name] = IntAttribute(first, name, fallback);
    rewrite_.Replace(index_, std::move(fused));
  }

  // Null: they are not.
  const char* WhyApart(const ir::Node& first, const ir::Node& second) const {
    if (first.inputs[kA] != second.inputs[kA]) return "its products are of two tensors";
    for (const auto& [name, fallback] : kSizes) {
      if (IntAttribute(first, name, fallback) != IntAttribute(second, name, fallback)) {
        return "its products' weights have two forms";
      }
    }
    if ((InputOf(first, kZeroPoints) < 0) != (InputOf(second, kZeroPoints) < 0)) {
      return "only one of its products has zero points";
    }
    for (const ir::Node* const product : {&first, &second}) {
      if (InputOf(*product, kGroups) >= 0) return "a product of it has groups of weights";
      if (InputOf(*product, kBias) >= 0) return "a product of it has a bias";
      for (const size_t input : {kB, kScales, kZeroPoints}) {
        const int value = InputOf(*product, input);
        if (value >= 0 && !rewrite_.graph.value(value).is_constant()) return "its weights are no constants";
      }
      const int zero_points = InputOf(*product, kZeroPoints);
      if (zero_points >= 0 && rewrite_.graph.value(zero_points).type != DataType::kUint8) {
        return "its zero points are no integers";
      }
    }
    for (const int factor : rewrite_.node(index_).inputs) {
      if (!match_.IsPrivate(factor)) return "others read one of its factors";
    }
    return nullptr;
  }

  const Rewriter& rewrite_;
  const Matcher& match_;
  int index_;
};

}  // namespace

void FuseGatedNBits(const Rewriter& rewrite, int index) {
  if (!rewrite.node(index).on_host) Fuser(rewrite, index).Fuse();
}

}  // namespace cudaep::graph
