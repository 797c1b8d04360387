#include "graph/pass/rotary.h"

#include <algorithm>

#include "graph/pass/part_match.h"
#include "graph/pass/rewrite.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// x * cos + turned(x) * sin.
struct Rotation {
  int x = -1, cos = -1, sin = -1;
  bool interleaved = false;  // neighbours are pairs
};

class Fuser {
 public:
  explicit Fuser(const Rewriter& rewrite) : rewrite_(rewrite), graph_(rewrite.graph), match_(rewrite.match) {}

  void Fuse(int index) const {
    std::optional<Rotation> rotation = Match(index);
    if (!rotation) return;
    const int64_t turned = graph_.value(rotation->x).dims->back().size;
    int last = index;
    if (const auto joined = JoinedWithTheRest(index, rotation->x)) {
      rotation->x = joined->whole;
      last = joined->last;
    }
    if (!HasFittingCaches(*rotation, turned)) {
      return rewrite_.Miss(index, "cosines and sines are not stated to have a row for each position, for all heads");
    }
    if (const auto narrow = BetweenCasts(*rotation, last)) {
      rotation = narrow;
      last = match_.OnlyReader(rewrite_.node(last).outputs[0]);
    }
    ir::Node fused = rewrite_.Instead(last, ops::kFusedDomain, "RotaryEmbedding", 1);
    fused.inputs = {rotation->x, rotation->cos, rotation->sin};
    if (rotation->interleaved) fused.attributes["interleaved"] = int64_t{1};
    rewrite_.Replace(last, std::move(fused));
  }

 private:
  std::optional<Rotation> Match(int index) const {
    const ir::Node& node = rewrite_.node(index);
    if (node.on_host || !node.Is("Add")) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Node *const straight = match_.Maker(node.inputs[i], "Mul"), *const across =
                                                                                match_.Maker(node.inputs[1 - i], "Mul");
      if (straight == nullptr || across == nullptr) return std::nullopt;
      for (size_t j = 0; j < 2; ++j) {
        const bool interleaved = match_.Maker(across->inputs[j], "Reshape") != nullptr;
        Rotation found{.sin = across->inputs[1 - j], .interleaved = interleaved};
        found.x = interleaved ? PairsTurnedFrom(across->inputs[j]) : HalvesTurnedFrom(across->inputs[j]);
        found.cos = found.x < 0 ? -1 : Matcher::Other(*straight, found.x);
        if (found.cos < 0) continue;
        if (graph_.SameDims(across->inputs[j], found.x)) return found;
        rewrite_.Miss(index, "what is turned is not stated to lie as the rows do");
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // x of concat(-second half of x, first half of x); -1: the value is none.
  int HalvesTurnedFrom(int value) const {
    const ir::Node* const concat = match_.Maker(value, "Concat");
    if (concat == nullptr || concat->inputs.size() != 2 || !JoinsRows(*concat, value)) return -1;
    const ir::Node* const negated = match_.Maker(concat->inputs[0], "Neg");
    if (negated == nullptr) return -1;
    const auto second = MatchRowPart(graph_, match_, negated->inputs[0]),
               first = MatchRowPart(graph_, match_, concat->inputs[1]);
    const bool halves = first && second && first->whole == second->whole && first->IsHalf(0) && second->IsHalf(1);
    return halves ? first->whole : -1;
  }

  // x of rows of the pairs (-second of two neighbours, first one); -1: the value is none.
  int PairsTurnedFrom(int value) const {
    const ir::Node* const flat = match_.Maker(value, "Reshape");
    const ir::Node* const pairs = flat == nullptr ? nullptr : match_.Maker(flat->inputs[0], "Concat");
    if (pairs == nullptr || pairs->inputs.size() != 2 || !JoinsRows(*pairs, flat->inputs[0])) return -1;
    const int minus = ElementsApart(pairs->inputs[0]), plus = ElementsApart(pairs->inputs[1]);
    const ir::Node* const negated = match_.Maker(minus, "Neg");
    if (negated == nullptr) return -1;
    const auto second = MatchEveryOther(graph_, match_, negated->inputs[0]),
               first = MatchEveryOther(graph_, match_, plus);
    const bool both = first && second && first->whole == second->whole && second->is_second && !first->is_second;
    return both ? first->whole : -1;
  }

  // What has one dimension less than the value: a last one of 1; -1: there is no such thing.
  int ElementsApart(int value) const {
    const ir::Node* const apart = match_.Maker(value);
    if (apart == nullptr || !(apart->Is("Unsqueeze") || apart->Is("Reshape"))) return -1;
    const auto &from = graph_.value(apart->inputs[0]).dims, &to = graph_.value(value).dims;
    const bool fits = from && to && to->size() == from->size() + 1 && to->back().size == 1 &&
                      std::equal(from->begin(), from->end(), to->begin(),
                                 [](const ir::Dim& a, const ir::Dim& b) { return a.Equals(b); });
    return fits ? apart->inputs[0] : -1;
  }

  bool JoinsRows(const ir::Node& concat, int value) const {
    const auto& dims = graph_.value(value).dims;
    return dims && IsLastAxis(IntAttribute(concat, "axis", 0), dims->size());
  }

  struct Joined {
    int whole, last;
  };
  // The rotated first elements of rows of `whole` beside the others, if there are any.
  std::optional<Joined> JoinedWithTheRest(int index, int x) const {
    const int rotated = rewrite_.node(index).outputs[0], next = match_.OnlyReader(rotated);
    const ir::Node* const concat = next < 0 ? nullptr : &rewrite_.node(next);
    if (concat == nullptr || !concat->Is("Concat") || concat->inputs.size() != 2 || concat->inputs[0] != rotated ||
        !JoinsRows(*concat, rotated)) {
      return std::nullopt;
    }
    const auto first = MatchRowPart(graph_, match_, x), rest = MatchRowPart(graph_, match_, concat->inputs[1]);
    if (!rest || rest->end != rest->size) return std::nullopt;
    const bool is_nothing = rest->whole == x && rest->begin == rest->size;
    const bool follows = first && first->begin == 0 && rest->whole == first->whole && rest->begin == first->end;
    return is_nothing || follows ? std::optional(Joined{rest->whole, next}) : std::nullopt;
  }

  // Of x as [batch, heads, rows, size] or [batch, rows, heads, size].
  bool HasFittingCaches(const Rotation& rotation, int64_t turned) const {
    const ir::Value &x = graph_.value(rotation.x), &cos = graph_.value(rotation.cos);
    if (!x.dims || x.dims->size() != 4 || !cos.dims || cos.dims->empty() || cos.dims->size() > 4) return false;
    if (!kFloatTypesNoDouble.Contains(x.type) || !graph_.SameDims(rotation.cos, rotation.sin)) return false;
    std::vector<ir::Dim> dims(4 - cos.dims->size(), ir::Dim{.size = 1});
    dims.insert(dims.end(), cos.dims->begin(), cos.dims->end());
    const auto rows_at = [&](size_t rows, size_t heads) {
      return dims[rows].Equals((*x.dims)[rows]) && dims[heads].size == 1;
    };
    return dims[3].size == turned && (dims[0].size == 1 || dims[0].Equals((*x.dims)[0])) &&
           (rows_at(2, 1) || rows_at(1, 2));
  }

  // Of 16 bits where the model casts everything to float for it and the result back: the operator computes so anyway.
  std::optional<Rotation> BetweenCasts(const Rotation& rotation, int last) const {
    const int back = match_.OnlyReader(rewrite_.node(last).outputs[0]);
    if (back < 0 || !rewrite_.node(back).Is("Cast")) return std::nullopt;
    const DataType type = graph_.value(rewrite_.node(back).outputs[0]).type;
    const auto narrow = [&](int value) {
      const ir::Node* const cast = match_.Maker(value, "Cast");
      return cast != nullptr && graph_.value(cast->inputs[0]).type == type ? cast->inputs[0] : -1;
    };
    const Rotation found{.x = narrow(rotation.x),
                         .cos = narrow(rotation.cos),
                         .sin = narrow(rotation.sin),
                         .interleaved = rotation.interleaved};
    const bool are_narrow = kFloat16Types.Contains(type) && found.x >= 0 && found.cos >= 0 && found.sin >= 0;
    return are_narrow ? std::optional(found) : std::nullopt;
  }

  const Rewriter& rewrite_;
  const ir::Graph& graph_;
  const Matcher& match_;
};

}  // namespace

void FuseRotary(ir::Graph& graph, const PassContext& context) {
  const Rewriter rewrite(graph, context, Fusion::kRotary);
  const Fuser fuser(rewrite);
  for (int n = 0; n < rewrite.node_count(); ++n) fuser.Fuse(n);
}

}  // namespace cudaep::graph
