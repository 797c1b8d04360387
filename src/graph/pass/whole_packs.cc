#include "graph/pass/whole_packs.h"

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "graph/ir/constants.h"
#include "graph/pass/layout.h"
#include "graph/pass/match.h"
#include "graph/pass/one_tap.h"

namespace cudaep::graph {
namespace {

constexpr int64_t kPack = 8;
constexpr size_t kImage = 0, kWeights = 1, kBias = 2, kResidual = 3;

bool HasInput(const ir::Node& node, size_t i) { return i < node.inputs.size() && node.inputs[i] >= 0; }

// Of images with their channels first, as models have them.
const ops::TensorView* PixelWeights(const ir::Graph& graph, const ir::Node& node, const Settings& settings) {
  const ops::TensorView* const w = OneTapWeights(graph, node, settings);
  if (w == nullptr || !kFloat16Types.Contains(w->type) || IntAttribute(node, "channels_last", 0) != 0) return nullptr;
  const ir::Value &x = graph.value(node.inputs[kImage]), &y = graph.value(node.outputs[0]);
  return x.dims && y.dims && IsOnePixel(x) && IsOnePixel(y) ? w : nullptr;
}

double Rounded(DataType type, double number) {
  return VisitType<kFloat16Types>(type, number,
                                  [&]<class T>() -> double { return Load(Store<T>(static_cast<float>(number))); });
}

class Filler {
 public:
  Filler(ir::Graph& graph, const Settings& settings) : graph_(graph), settings_(settings), match_(graph) {}

  void Fill(size_t index) const {
    ir::Node& first = graph_.nodes[index];
    const ops::TensorView* const w1 = PixelWeights(graph_, first, settings_);
    if (w1 == nullptr || HasInput(first, kResidual)) return;
    if (HasInput(first, kBias) && !graph_.value(first.inputs[kBias]).is_constant()) return;
    const int64_t squeezed = w1->dim[0], from = w1->dim[1], twice = AlignUp(squeezed, kPack) - squeezed;
    const int between = first.outputs[0];
    if (twice == 0 || twice > squeezed || from % kPack != 0 || !match_.IsReadOnce(between)) return;
    ir::Node& second = graph_.nodes[static_cast<size_t>(match_.OnlyReader(between))];
    if (second.inputs[kImage] != between) return;
    const ops::TensorView* const w2 = PixelWeights(graph_, second, settings_);
    if (w2 == nullptr || w2->dim[1] != squeezed || w2->dim[0] % kPack != 0) return;

    const int64_t filled = squeezed + twice, to = w2->dim[0];
    std::vector<double> parts = Numbers(second.inputs[kWeights]), wider;
    for (int64_t row = 0; row < to; ++row) {
      const auto begin = parts.begin() + row * squeezed;
      std::vector<double> rest(begin, begin + twice);
      for (int64_t i = 0; i < twice; ++i) {
        const double whole = begin[i];
        begin[i] = Rounded(w2->type, whole / 2);
        // Half of a number below the normal ones may be none; of the smallest, a part would be zero.
        if (begin[i] == 0 && whole != 0) return;
        rest[static_cast<size_t>(i)] = begin[i] * 2 == whole ? begin[i] : whole - begin[i];
      }
      wider.insert(wider.end(), begin, begin + squeezed);
      wider.insert(wider.end(), rest.begin(), rest.end());
    }
    SetDim(second, w2->dims(), 1, filled, wider);
    for (const size_t input : {kWeights, kBias}) {
      if (!HasInput(first, input)) continue;
      std::vector<double> rows = Numbers(first.inputs[input]);
      const auto elems = static_cast<ptrdiff_t>(rows.size()) / squeezed * twice;
      const std::vector<double> again(rows.begin(), rows.begin() + elems);
      rows.insert(rows.end(), again.begin(), again.end());
      SetDim(first, graph_.value(first.inputs[input]).constant.dims(), 0, filled, rows, input);
    }
    ir::Value image = graph_.value(between);
    (*image.dims)[1] = {.size = filled};
    first.outputs[0] = second.inputs[kImage] = graph_.AddValue(std::move(image));
  }

 private:
  std::vector<double> Numbers(int value) const { return *ir::NumbersOf(graph_, value); }
  // Another constant in place of an input.
  void SetDim(ir::Node& node, Dims dims, int d, int64_t size, const std::vector<double>& numbers,
              size_t input = kWeights) const {
    Shape shape(dims);
    shape[d] = size;
    const ir::Value& old = graph_.value(node.inputs[input]);
    const std::string name = old.name;
    node.inputs[input] = graph_.AddConstant(name, ir::MakeNumbers(old.type, shape, numbers));
  }

  ir::Graph& graph_;
  const Settings& settings_;
  const Matcher match_;
};

}  // namespace

void FillPacks(ir::Graph& graph, const PassContext& context) {
  const Filler filler(graph, context.settings);
  for (size_t n = 0; n < graph.nodes.size(); ++n) filler.Fill(n);
}

}  // namespace cudaep::graph
