#include "graph/pass/fold.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "core/data_type_traits.h"
#include "graph/ir/constants.h"
#include "graph/shape/host_operator.h"

namespace cudaep::graph {
namespace {

// A constant is read in host memory for it, and made anew.
constexpr int64_t kMostElements = 64;

// Elements of a tensor in another type.
template <class From, class To>
std::vector<std::byte> Converted(const ops::TensorView& view) {
  std::vector<std::byte> data(static_cast<size_t>(view.elems()) * sizeof(To));
  auto* const to = reinterpret_cast<To*>(data.data());
  const auto from = view.host<From>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = Store<To>(static_cast<ComputeType<To>>(Load(from[i])));
  return data;
}

ops::HostTensor InFloat(const ops::TensorView& view) {
  return {.type = DataType::kFloat,
          .dims = Shape(view.dims()),
          .data = view.type == DataType::kFloat16 ? Converted<Half, float>(view) : Converted<BFloat16, float>(view)};
}

ops::HostTensor Rounded(const ops::HostTensor& tensor, DataType type) {
  const ops::TensorView view = tensor.view();
  return {.type = type,
          .dims = tensor.dims,
          .data = type == DataType::kFloat16 ? Converted<float, Half>(view) : Converted<float, BFloat16>(view)};
}

class Folder {
 public:
  Folder(ir::Graph& graph, const ir::KnownElements& known, const Settings& settings)
      : graph_(graph),
        known_(known),
        settings_(settings),
        folded_(graph.values.size(), -1),
        is_made_(graph.values.size(), 0) {}

  void Run() {
    for (ir::Node& node : graph_.nodes) {
      for (int& input : node.inputs) {
        if (input >= 0 && folded_[static_cast<size_t>(input)] >= 0) input = folded_[static_cast<size_t>(input)];
      }
      for (const int output : node.outputs) {
        if (output >= 0 && !node.on_host) is_made_[static_cast<size_t>(output)] = 1;
      }
      if (node.outputs.size() != 1 || node.outputs[0] < 0) continue;
      ReadVectors(node);
      const int output = node.outputs[0];
      int& folded = folded_[static_cast<size_t>(output)];
      folded = Unchanged(node);
      if (folded >= 0 && !node.on_host) LetLeave(folded, output);
      if (folded >= 0 || graph_.value(output).output >= 0) continue;
      std::optional<ops::HostTensor> tensor = Numbers(output);
      if (!tensor) tensor = Evaluated(node);
      if (!tensor || tensor->dims.elems() > kMostElements) continue;
      folded = graph_.AddConstant(graph_.value(output).name, *std::move(tensor));
    }
  }

 private:
  // A constant of [1, ..., 1, size] is added, or multiplied with, as the vector that it is, which passes know.
  void ReadVectors(ir::Node& node) {
    if (!node.Is("Add") && !node.Is("Mul")) return;
    for (const size_t i : {0, 1}) {
      const int input = node.inputs[i];
      const ops::TensorView constant = graph_.value(input).constant;
      const auto& others = graph_.value(node.inputs[1 - i]).dims;
      if (!constant.present() || constant.rank < 2 || constant.elems() != constant.dims().back()) continue;
      if (!others || others->size() < static_cast<size_t>(constant.rank)) continue;
      int& vector = vector_of_.try_emplace(input, -1).first->second;
      if (vector < 0) {
        ir::Value made{.name = graph_.value(input).name,
                       .type = constant.type,
                       .dims = std::vector<ir::Dim>{ir::Dim{.size = constant.elems()}},
                       .constant = constant};
        made.constant.dim += constant.rank - 1;
        made.constant.rank = 1;
        vector = graph_.AddValue(std::move(made));
      }
      node.inputs[i] = vector;
    }
  }

  // The input that comes out as it is: of one tensor, or of one multiplied or divided by 1. -1: none does.
  int Unchanged(const ir::Node& node) {
    constexpr std::string_view kOfOne[] = {"Cast", "Concat", "Identity", "Max", "Mean", "Min", "Sum"};
    if (!node.domain.empty() || node.inputs.empty()) return -1;
    int from = -1;
    if (node.inputs.size() == 1 && std::ranges::find(kOfOne, node.op_type) != std::end(kOfOne)) {
      from = node.inputs[0];
    } else if (node.Is("Mul") || node.Is("Div")) {
      if (IsOneFor(node.inputs[0], node.inputs[1])) from = node.inputs[0];
      if (node.Is("Mul") && IsOneFor(node.inputs[1], node.inputs[0])) from = node.inputs[1];
    }
    if (from < 0) return -1;
    ir::Value& value = graph_.value(from);
    const ir::Value& same = graph_.value(node.outputs[0]);
    if (value.kind != ops::ValueKind::kTensor || value.type != same.type) return -1;
    // What is stated of the one holds for the other.
    if (!value.dims) value.dims = same.dims;
    for (size_t i = 0; same.dims && i < same.dims->size() && i < value.dims->size(); ++i) {
      if (!(*value.dims)[i].known() && (*same.dims)[i].known()) (*value.dims)[i] = (*same.dims)[i];
    }
    return from;
  }

  // What a node makes here leaves in the place of its copy, unless it leaves anyway: one value is one result.
  void LetLeave(int value, int copy) {
    int &place = graph_.value(copy).output, &own = graph_.value(value).output;
    if (place < 0 || own >= 0 || graph_.value(value).is_constant() || is_made_[static_cast<size_t>(value)] == 0) return;
    graph_.outputs[static_cast<size_t>(place)] = value;
    std::swap(place, own);
  }

  // Whether a factor is 1 and gives the value no dimensions.
  bool IsOneFor(int value, int factor) const {
    const auto& dims = graph_.value(value).dims;
    return dims && graph_.value(factor).constant.rank <= static_cast<int>(dims->size()) &&
           ir::ScalarOf(graph_, factor) == 1.0;
  }

  // Sizes, all of them stated.
  std::optional<ops::HostTensor> Numbers(int value) const {
    const auto& elements = known_[static_cast<size_t>(value)];
    const auto& dims = graph_.value(value).dims;
    if (!elements || !dims || graph_.value(value).type != DataType::kInt64) return std::nullopt;
    if (!std::ranges::all_of(*elements, &ir::Element::is_number)) return std::nullopt;
    const auto count = static_cast<int64_t>(elements->size());
    if (dims->size() > 1 || (dims->empty() && count != 1)) return std::nullopt;
    ops::HostTensor tensor{.type = DataType::kInt64, .dims = dims->empty() ? Shape{} : Shape{count}, .data = {}};
    tensor.data.resize(elements->size() * sizeof(int64_t));
    auto* const to = reinterpret_cast<int64_t*>(tensor.data.data());
    for (size_t i = 0; i < elements->size(); ++i) to[i] = (*elements)[i].number;
    return tensor;
  }

  // What the node makes of small constants.
  std::optional<ops::HostTensor> Evaluated(const ir::Node& node) const {
    const auto is_small = [&](int input) {
      const ops::TensorView* const constant = input < 0 ? nullptr : &graph_.value(input).constant;
      return constant == nullptr || (constant->present() && constant->elems() <= kMostElements);
    };
    if (node.inputs.empty() || !std::ranges::all_of(node.inputs, is_small)) return std::nullopt;
    ir::Graph alone;
    ir::Node copy = node;
    for (int& input : copy.inputs) {
      if (input < 0) continue;
      const ops::TensorView& constant = graph_.value(input).constant;
      const bool narrow = kFloat16Types.Contains(constant.type);
      input = narrow ? alone.AddConstant("", InFloat(constant))
                     : alone.AddValue({.type = constant.type, .constant = constant});
    }
    const ir::Value& output = graph_.value(node.outputs[0]);
    const bool narrow = kFloat16Types.Contains(output.type);
    copy.outputs = {alone.AddValue({.type = narrow ? DataType::kFloat : output.type, .dims = output.dims})};
    if (narrow && copy.Is("Cast")) copy.attributes["to"] = static_cast<int64_t>(kOnnxFloat);
    const auto made = MakeHostOperator(ir::NodeInfo(alone, copy, settings_));
    if (!made.ok()) return std::nullopt;
    std::vector<ops::TensorView> views(copy.inputs.size());
    for (size_t i = 0; i < views.size(); ++i) {
      if (copy.inputs[i] >= 0) views[i] = alone.value(copy.inputs[i]).constant;
    }
    std::vector<ops::HostTensor> results;
    if (!made.value()->Evaluate(views, results).ok()) return std::nullopt;  // said when the region runs
    return narrow ? Rounded(results[0], output.type) : std::move(results[0]);
  }

  static constexpr int kOnnxFloat = 1;  // TensorProto.FLOAT

  ir::Graph& graph_;
  const ir::KnownElements& known_;
  const Settings& settings_;
  std::vector<int> folded_;       // the value in place of another; -1: none
  std::vector<uint8_t> is_made_;  // by a node so far, on the device
  std::map<int, int> vector_of_;  // of constants
};

}  // namespace

void FoldKnown(ir::Graph& graph, const ir::KnownElements& known, const Settings& settings) {
  Folder(graph, known, settings).Run();
  RemoveDeadNodes(graph);
}

}  // namespace cudaep::graph
