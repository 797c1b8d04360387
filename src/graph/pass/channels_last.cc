#include "graph/pass/channels_last.h"

#include <algorithm>
#include <numeric>

#include "core/strings.h"
#include "graph/pass/layout.h"
#include "graph/pass/layout_rules.h"
#include "graph/pass/whole_packs.h"

namespace cudaep::graph {
namespace {

size_t Index(int index) { return static_cast<size_t>(index); }
bool IsConvolution(const ir::Node& node) { return node.op_type.ends_with("Conv"); }

// Values whose layouts are decided together.
class Groups {
 public:
  explicit Groups(size_t values) : parent_(values) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int value) const {
    while (parent_[Index(value)] != value) value = parent_[Index(value)];
    return value;
  }
  void Join(int a, int b) {
    a = Find(a), b = Find(b);
    parent_[Index(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

struct Tally {
  double saved = 0, cost = 0;  // elements moved
  int nodes = 0;
  bool gains = false;               // some node does, wherever its tensors come from
  const ir::Node* first = nullptr;  // convolution; other nodes are left as they are

  bool pays() const { return saved > cost; }
};

class Pass {
 public:
  Pass(ir::Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph) {
    for (const ir::Node& node : graph.nodes) turned_.push_back(TurnNode(graph, node, context));
    const size_t count = graph.values.size();
    groups_.emplace(count);
    tallies_.resize(count);
    last_.assign(count, -1);
    has_first_.assign(count, 1);
    stands_for_.resize(count);
    std::iota(stands_for_.begin(), stands_for_.end(), 0);
  }

  void Run() {
    Join();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) CountNode(n);
    for (size_t v = 0; v < tallies_.size(); ++v) CountBorders(static_cast<int>(v));
    bool any = false;
    for (const Tally& tally : tallies_) {
      if (tally.first == nullptr) continue;
      any = any || tally.pays();
      if (!tally.pays() && !tally.gains) continue;
      context_.notes.push_back({Fusion::kChannelsLast,
                                {tally.first->sources.front(), StrCat(tally.nodes - 1, " more nodes")},
                                tally.pays() ? "" : "changes of layout around them move more than they save"});
    }
    if (!any) return;
    std::vector<ir::Node> nodes = std::move(graph_.nodes);
    for (size_t n = 0; n < nodes.size(); ++n) Rewrite(n, std::move(nodes[n]));
    for (const int output : graph_.outputs) First(output);
    graph_.nodes = std::move(made_);
  }

 private:
  enum class Change : uint8_t { kNone, kToLast, kToFirst };

  // The value by which a turned node has its group.
  static int ImageOf(const TurnedNode& turned) {
    return turned.images.empty() ? turned.node.outputs[0] : turned.node.inputs[turned.images.front()];
  }
  int GroupOf(const TurnedNode& turned) const { return groups_->Find(ImageOf(turned)); }
  bool Pays(int value) const {
    return Index(value) < last_.size() && tallies_[Index(groups_->Find(value))].first != nullptr &&
           tallies_[Index(groups_->Find(value))].pays();
  }
  bool IsTurned(size_t n) const { return turned_[n] && Pays(ImageOf(*turned_[n])); }

  double ElemsOf(int value) const {
    double elems = 1;
    for (const ir::Dim& dim : *graph_.value(value).dims) elems *= dim.known() ? static_cast<double>(dim.size) : 1;
    return elems;
  }

  // A Transpose of the model's that changes the layout of an image which turned nodes share.
  Change ChangeOf(const ir::Node& node) const {
    const auto perm = node.attributes.find("perm");
    if (!node.Is("Transpose") || node.on_host || perm == node.attributes.end()) return Change::kNone;
    const auto& order = std::get<std::vector<int64_t>>(perm->second);
    const auto rank = static_cast<int>(order.size());
    if (rank < 3) return Change::kNone;
    if (order == OrderToLast(rank) && in_group(node.inputs[0])) return Change::kToLast;
    return order == OrderToFirst(rank) && in_group(node.outputs[0]) ? Change::kToFirst : Change::kNone;
  }
  bool in_group(int value) const { return tallies_[Index(groups_->Find(value))].nodes > 0; }

  void Join() {
    for (const auto& turned : turned_) {
      if (!turned) continue;
      for (const size_t i : turned->images) groups_->Join(turned->node.inputs[i], GroupOf(*turned));
      for (const int output : turned->node.outputs) {
        if (output >= 0 && turned->makes_images) groups_->Join(output, GroupOf(*turned));
      }
    }
    for (size_t n = 0; n < turned_.size(); ++n) {
      if (!turned_[n]) continue;
      Tally& tally = tallies_[Index(GroupOf(*turned_[n]))];
      ++tally.nodes;
      tally.gains = tally.gains || turned_[n]->gains;
      if (IsConvolution(graph_.nodes[n]) && tally.first == nullptr) tally.first = &graph_.nodes[n];
    }
  }

  void CountNode(size_t n) {
    const ir::Node& node = graph_.nodes[n];
    if (const Change change = ChangeOf(node); change != Change::kNone) {
      const int image = change == Change::kToLast ? node.inputs[0] : node.outputs[0];
      tallies_[Index(groups_->Find(image))].saved += ElemsOf(image);
    }
    if (!turned_[n] || !turned_[n]->gains) return;
    tallies_[Index(GroupOf(*turned_[n]))].saved += ElemsOf(node.inputs[0]) + ElemsOf(node.outputs[0]);
  }

  bool ReadsLast(const ir::Uses::Use& use) const {
    const ir::Node& node = graph_.nodes[Index(use.node)];
    if (const auto& turned = turned_[Index(use.node)]) {
      const auto& images = turned->images;
      if (std::find(images.begin(), images.end(), static_cast<size_t>(use.input)) != images.end()) return true;
    }
    return ChangeOf(node) == Change::kToLast || (node.on_host && (node.Is("Shape") || node.Is("Size")));
  }

  void CountBorders(int value) {
    Tally& tally = tallies_[Index(groups_->Find(value))];
    if (tally.nodes == 0 || IsOnePixel(graph_.value(value))) return;
    const int producer = uses_.producer(value);
    const bool made_last = producer >= 0 && ((turned_[Index(producer)] && turned_[Index(producer)]->makes_images) ||
                                             ChangeOf(graph_.nodes[Index(producer)]) == Change::kToFirst);
    const std::vector<ir::Uses::Use>& readers = uses_.readers(value);
    const bool all_last = std::all_of(readers.begin(), readers.end(), [&](auto& use) { return ReadsLast(use); });
    const bool leaves = graph_.value(value).output >= 0;
    if (!made_last || !all_last || leaves) tally.cost += ElemsOf(value);
  }

  // The image with its channels last, changed to it where nothing makes it so.
  int Last(int value) {
    int& last = last_[Index(value)];
    if (last >= 0) return last;
    const int from = First(value), to = AddInLast(graph_, value);
    made_.push_back(LayoutChange(graph_, from, to, true));
    return last_[Index(value)] = to;
  }
  // The value as the model has it.
  int First(int value) {
    if (value < 0 || Index(value) >= last_.size()) return value;
    if (has_first_[Index(value)] == 0) {
      has_first_[Index(value)] = 1;
      made_.push_back(LayoutChange(graph_, last_[Index(value)], value, false));
    }
    return stands_for_[Index(value)];
  }

  void Rewrite(size_t n, ir::Node node) {
    if (IsTurned(n)) return Turn(*turned_[n]);
    const Change change = ChangeOf(node);
    if (change == Change::kToLast && Pays(node.inputs[0])) {
      const int last = Last(node.inputs[0]);
      if (graph_.value(node.outputs[0]).output < 0) {
        stands_for_[Index(node.outputs[0])] = last;
        return;
      }
      made_.push_back({.name = node.name,
                       .op_type = "Identity",
                       .inputs = {last},
                       .outputs = node.outputs,
                       .sources = node.sources});
      return;
    }
    if (change == Change::kToFirst && Pays(node.outputs[0])) {
      last_[Index(node.outputs[0])] = First(node.inputs[0]);
      has_first_[Index(node.outputs[0])] = 0;
      return;
    }
    if (node.on_host && (node.Is("Shape") || node.Is("Size")) && ReadDims(node)) return;
    for (int& input : node.inputs) input = First(input);
    made_.push_back(std::move(node));
  }

  void Turn(TurnedNode& turned) {
    for (int& input : turned.node.inputs) {
      const size_t i = static_cast<size_t>(&input - turned.node.inputs.data());
      const bool image = std::find(turned.images.begin(), turned.images.end(), i) != turned.images.end();
      input = image ? Last(input) : First(input);
    }
    for (int& output : turned.node.outputs) {
      if (output < 0 || !turned.makes_images) continue;
      has_first_[Index(output)] = 0;
      output = last_[Index(output)] = AddInLast(graph_, output);
    }
    for (ir::Node& before : turned.before) {
      for (int& input : before.inputs) input = First(input);
      made_.push_back(std::move(before));
    }
    made_.push_back(std::move(turned.node));
  }

  // Dimensions are read of the layout that there is. False where the model's is.
  bool ReadDims(ir::Node& node) {
    const int image = node.inputs[0];
    if (Index(image) >= has_first_.size() || has_first_[Index(image)] != 0) return false;
    node.inputs[0] = last_[Index(image)];
    if (node.Is("Shape")) {
      const auto rank = static_cast<int>(graph_.value(image).dims->size());
      const ir::NodeInfo info(graph_, node, context_.settings);
      const auto at = [&](const char* name, int64_t fallback) {
        const int64_t given = info.IntOr(name, fallback);
        return std::clamp<int64_t>(given < 0 ? given + rank : given, 0, rank);
      };
      std::vector<int64_t> order = OrderToFirst(rank);
      const int64_t start = at("start", 0), end = at("end", rank);
      order = {order.begin() + start, order.begin() + std::max(start, end)};
      node.attributes.clear();
      const int dims = graph_.AddValue({.name = graph_.value(node.outputs[0]).name,
                                        .type = DataType::kInt64,
                                        .dims = std::vector<ir::Dim>{{.size = rank}}});
      const int result = node.outputs[0];
      node.outputs[0] = dims;
      made_.push_back(std::move(node));
      made_.push_back(PickOnHost(graph_, dims, order, result));
      return true;
    }
    made_.push_back(std::move(node));
    return true;
  }

  ir::Graph& graph_;
  const PassContext& context_;
  const ir::Uses uses_;
  std::vector<std::optional<TurnedNode>> turned_;  // of each node
  std::optional<Groups> groups_;
  // By value. Those made later have none.
  std::vector<Tally> tallies_;      // at the group's value
  std::vector<int> last_;           // the same image with its channels last; -1: not yet
  std::vector<uint8_t> has_first_;  // is as the model has it
  std::vector<int> stands_for_;     // another value, the same tensor
  std::vector<ir::Node> made_;
};

}  // namespace

void TurnChannelsLast(ir::Graph& graph, const PassContext& context) {
  const auto& nodes = graph.nodes;
  if (std::none_of(nodes.begin(), nodes.end(), IsConvolution)) return;
  FillPacks(graph, context);
  Pass(graph, context).Run();
}

}  // namespace cudaep::graph
