#include "graph/pass/segment_match.h"

#include <algorithm>

#include "graph/ir/constants.h"
#include "graph/pass/match.h"

namespace cudaep::graph {
namespace {

// The element of a list at the iteration's number plus `shift`.
struct Position {
  int list = -1;
  int64_t shift = 0;

  bool operator==(const Position&) const = default;
};

class SegmentMatcher {
 public:
  explicit SegmentMatcher(const LoopBody& body) : body_(body), graph_(body.graph), match_(body.graph) {}

  SegmentMatch Match() {
    if (!HasForm()) return {};
    const int row = RowOfIteration();
    const ir::Node* const reduce = Reduction(row);
    if (reduce == nullptr) return {};
    const char* const missed = Read(row, *reduce);
    if (missed != nullptr) return {.missed = missed};
    return {.loop = made_};
  }

 private:
  size_t carried() const { return body_.given.size() - 2; }
  int Input(size_t index) const { return index < graph_.inputs.size() ? graph_.inputs[index] : -1; }
  bool IsOuter(int value) const {
    return value >= 0 && match_.MakerIndex(value) < 0 && std::ranges::find(graph_.inputs, value) == graph_.inputs.end();
  }
  const ir::Value& value(int index) const { return graph_.value(index); }
  DataType TypeOf(int index) const { return index < 0 ? DataType::kUndefined : value(index).type; }
  bool HasRank(int index, size_t rank) const { return value(index).dims && value(index).dims->size() == rank; }
  bool IsList(int index) const { return IsOuter(index) && kIndexTypes.Contains(TypeOf(index)) && HasRank(index, 1); }

  // One scan output and nothing carried, or a counter and a sequence that are carried.
  bool HasForm() {
    if (body_.given.size() < 2 || graph_.inputs.size() != body_.given.size()) return false;
    made_.gives_sequence = carried() == 2 && value(Input(3)).kind == ops::ValueKind::kSequence;
    return graph_.outputs.size() == (made_.gives_sequence ? 3 : 2) && (made_.gives_sequence || carried() == 0);
  }

  int RowOfIteration() const {
    if (!made_.gives_sequence) return Same(graph_.outputs[1]);
    const ir::Node* const insert = match_.Maker(graph_.outputs[2], "SequenceInsert");
    return insert != nullptr && insert->inputs.size() == 2 && insert->inputs[0] == Input(3) ? Same(insert->inputs[1])
                                                                                            : -1;
  }

  // The node that reduces rows, behind the Ifs around it.
  const ir::Node* Reduction(int row) const {
    for (const ir::Node* node = match_.Maker(row); node != nullptr; node = match_.Maker(Same(node->inputs[2]))) {
      if (node->Is("ReduceSum") || node->Is("ReduceMean") || node->Is("ReduceMax")) return node;
      if (!node->Is("If")) return nullptr;
    }
    return nullptr;
  }

  // What differs; null: nothing.
  const char* Read(int row, const ir::Node& reduce) {
    made_.reduction = reduce.Is("ReduceSum") ? "sum" : reduce.Is("ReduceMean") ? "mean" : "max";
    if (!ReducesRows(reduce)) return "it does not reduce along the first axis alone";
    if (const char* missed = ReadRows(reduce.inputs[0])) return missed;
    if (const char* missed = ReadCount()) return missed;
    const ir::Node* branch = match_.Maker(row, "If");
    if (branch != nullptr && IsZeroRow(Same(branch->inputs[1])) && IsEmpty(branch->inputs[0])) {
      made_.empty_is_zero = true;
      branch = match_.Maker(Same(branch->inputs[2]), "If");
    }
    if (branch == nullptr) return nullptr;
    if (made_.reduction != std::string_view("mean")) return "what a segment gives depends on a condition";
    return ReadLastMean(*branch, reduce);
  }

  bool ReducesRows(const ir::Node& reduce) const {
    const auto axes = match_.IntsOf(reduce, "axes", 1);
    return axes && *axes == std::vector<int64_t>{0} &&
           (IntAttribute(reduce, "keepdims", 1) != 0) == made_.gives_sequence;
  }

  // Rows between two positions, or rows of a table by what is between them.
  const char* ReadRows(int data) {
    data = Same(data);
    if (const ir::Node* const mul = match_.Maker(data, "Mul")) {
      if (const char* missed = ReadWeights(*mul, &data)) return missed;
    }
    const ir::Node* const gather = match_.Maker(data, "Gather");
    if (gather != nullptr) {
      if (IntAttribute(*gather, "axis", 0) != 0) return "rows are not along the table's first axis";
      made_.rows = Same(gather->inputs[0]);
      made_.indices = SegmentOf(gather->inputs[1]);
      if (made_.indices < 0) return "indices are not those between two elements of lists of positions";
      if (!IsList(made_.indices)) return "indices are not a list";
    } else {
      made_.rows = SegmentOf(data);
      if (made_.rows < 0) return "rows are not those between two elements of lists of positions";
    }
    if (!IsOuter(made_.rows) || !HasRank(made_.rows, 2)) return "rows are not those of a matrix";
    if (!kFloatTypesNoDouble.Contains(TypeOf(made_.rows))) return "rows are not of float32, float16 or bfloat16";
    if (start_.shift != 0 || !IsList(start_.list) || !IsList(end_.list)) return "positions are not elements of lists";
    made_.starts = start_.list;
    if (end_.list == start_.list && end_.shift == 1) return nullptr;
    made_.ends = end_.list;
    return end_.shift == 0 ? nullptr : "a segment does not end where its list says, or where the next one starts";
  }

  // A weight for each index, as long as the indices wherever segments lie.
  const char* ReadWeights(const ir::Node& mul, int* data) {
    for (const int side : {0, 1}) {
      const ir::Node* const wide = match_.Maker(Same(mul.inputs[static_cast<size_t>(side)]), "Unsqueeze");
      const int rows = Same(mul.inputs[static_cast<size_t>(1 - side)]);
      const ir::Node* const gather = match_.Maker(rows, "Gather");
      if (wide == nullptr || gather == nullptr) continue;
      const auto axes = match_.IntsOf(*wide, "axes", 1);
      made_.weights = SegmentOf(wide->inputs[0]);
      const Position start = start_, end = end_;
      const int indices = SegmentOf(gather->inputs[1]);
      const bool is_same = start == start_ && end == end_ && indices >= 0;
      if (!axes || *axes != std::vector<int64_t>{1} || made_.weights < 0 || !is_same || !IsOuter(made_.weights) ||
          !HasRank(made_.weights, 1) || !graph_.SameDims(made_.weights, indices)) {
        return "weights are not one for each index, as the model states dimensions";
      }
      *data = rows;
      return nullptr;
    }
    return "rows are changed before they are reduced";
  }

  // What a Slice along the first axis takes from, whose bounds become those of the segment; -1: it is none.
  int SegmentOf(int data) {
    const ir::Node* const slice = match_.Maker(Same(data), "Slice");
    if (slice == nullptr || !TakesFirstAxis(*slice)) return -1;
    const std::optional<Position> start = ElementAt(slice->inputs[1]), end = ElementAt(slice->inputs[2]);
    if (!start || !end) return -1;
    start_ = *start, end_ = *end;
    return Same(slice->inputs[0]);
  }
  bool TakesFirstAxis(const ir::Node& slice) const {
    return slice.inputs.size() >= 3 && IsAbsentOr(slice, 3, 0) && IsAbsentOr(slice, 4, 1);
  }
  bool IsAbsentOr(const ir::Node& node, size_t input, int64_t wanted) const {
    return input >= node.inputs.size() || node.inputs[input] < 0 || NumberOf(node.inputs[input]) == wanted;
  }

  std::optional<Position> ElementAt(int position) const {
    const ir::Node* const node = match_.Maker(OneElement(position));
    if (node == nullptr) return std::nullopt;
    if (node->Is("Gather") && IntAttribute(*node, "axis", 0) == 0) {
      const std::optional<int64_t> shift = IterationPlus(node->inputs[1]);
      if (shift) return Position{Same(node->inputs[0]), *shift};
    } else if (node->Is("Slice") && TakesFirstAxis(*node)) {
      const std::optional<int64_t> shift = IterationPlus(node->inputs[1]), next = IterationPlus(node->inputs[2]);
      if (shift && next && *next == *shift + 1) return Position{Same(node->inputs[0]), *shift};
    }
    return std::nullopt;
  }

  // The number that is added to that of the iteration; both counters are the same.
  std::optional<int64_t> IterationPlus(int number) const {
    number = OneElement(number);
    if (number == Input(0) || (made_.gives_sequence && number == Input(2) && CountsUp())) return 0;
    const ir::Node* const add = match_.Maker(number, "Add");
    if (add == nullptr) return std::nullopt;
    for (const size_t side : {0, 1}) {
      const std::optional<int64_t> step = NumberOf(add->inputs[side]);
      const std::optional<int64_t> base = step ? IterationPlus(add->inputs[1 - side]) : std::nullopt;
      if (base) return *base + *step;
    }
    return std::nullopt;
  }
  bool CountsUp() const {
    const ir::Node* const add = match_.Maker(Same(graph_.outputs[1]), "Add");
    if (add == nullptr || NumberOf(body_.given[2]) != 0) return false;
    return (OneElement(add->inputs[0]) == Input(2) && NumberOf(add->inputs[1]) == 1) ||
           (OneElement(add->inputs[1]) == Input(2) && NumberOf(add->inputs[0]) == 1);
  }

  // How often the Loop runs: as often as it says, or while the next iteration is below a count.
  const char* ReadCount() {
    const int goes_on = Same(graph_.outputs[0]);
    if (!made_.gives_sequence) {
      made_.count = body_.given[0];
      const bool always = made_.count >= 0 && (body_.given[1] < 0 || IsTrue(body_.given[1])) &&
                          (IsTrue(goes_on) || goes_on == Input(1));
      return always ? nullptr : "a condition may end the Loop before its number of iterations";
    }
    const ir::Node* const less = match_.Maker(goes_on, "Less");
    if (body_.given[0] >= 0 || body_.given[1] < 0 || less == nullptr || IterationPlus(less->inputs[0]) != 1) {
      return "the Loop does not go on while its counter is below a number";
    }
    made_.condition = body_.given[1];
    made_.count = OneElement(less->inputs[1]);
    return IsOuter(made_.count) ? nullptr : "the number of iterations changes on the way";
  }

  bool IsEmpty(int condition) const {
    const ir::Node* const equal = match_.Maker(Same(condition), "Equal");
    if (equal == nullptr) return false;
    const std::optional<Position> a = ElementAt(equal->inputs[0]), b = ElementAt(equal->inputs[1]);
    return (a == start_ && b == end_) || (a == end_ && b == start_);
  }

  bool IsZeroRow(int row) const {
    const ir::Value& zeros = value(row);
    if (!zeros.is_constant() || zeros.constant.rank != 2 || zeros.constant.dim[0] != 1) return false;
    const auto* const bytes = static_cast<const uint8_t*>(zeros.constant.data);
    return zeros.constant.dim[1] == value(made_.rows).dims->back().size &&
           std::all_of(bytes, bytes + zeros.constant.bytes(), [](uint8_t byte) { return byte == 0; });
  }

  // If(i == count - 1){ n = length of a list - start; If(n > 0){ sum / n }else{ sum } }else{ mean }.
  const char* ReadLastMean(const ir::Node& branch, const ir::Node& mean) {
    const char* const other = "the mean of the last segment is none of what is behind its start";
    if (match_.Maker(Same(branch.inputs[2])) != &mean) return "what a segment gives depends on a condition";
    if (!IsLast(branch.inputs[0])) return other;
    const ir::Node* const inner = match_.Maker(Same(branch.inputs[1]), "If");
    const ir::Node* const greater = inner == nullptr ? nullptr : match_.Maker(Same(inner->inputs[0]), "Greater");
    const ir::Node* const div = inner == nullptr ? nullptr : match_.Maker(Same(inner->inputs[1]), "Div");
    if (greater == nullptr || div == nullptr || NumberOf(greater->inputs[1]) != 0) return other;
    const int sum = Same(div->inputs[0]);
    const ir::Node* const reduce = match_.Maker(sum, "ReduceSum");
    if (reduce == nullptr || !ReducesRows(*reduce) || reduce->inputs[0] != mean.inputs[0]) return other;
    const ir::Node* const cast = match_.Maker(div->inputs[1]);
    if (cast == nullptr || !(cast->Is("Cast") || cast->Is("CastLike")) || Same(inner->inputs[2]) != sum) return other;
    const int length = Same(cast->inputs[0]);
    if (length != Same(greater->inputs[0])) return other;
    return ReadCounted(length) ? nullptr : other;
  }
  bool IsLast(int condition) const {
    const ir::Node* const equal = match_.Maker(Same(condition), "Equal");
    if (equal == nullptr || IterationPlus(equal->inputs[0]) != 0) return false;
    const std::optional<int64_t> last = NumberOf(equal->inputs[1]), count = NumberOf(made_.count);
    if (last && count) return *last == *count - 1;
    const ir::Node* const less_one = match_.Maker(OneElement(equal->inputs[1]), "Sub");
    return less_one != nullptr && OneElement(less_one->inputs[0]) == made_.count && NumberOf(less_one->inputs[1]) == 1;
  }
  // The length of a list, which the host computes itself where the model states it, less the start.
  bool ReadCounted(int length) {
    const ir::Node* const sub = match_.Maker(length, "Sub");
    if (sub == nullptr || ElementAt(sub->inputs[1]) != start_) return false;
    made_.counted_elems = NumberOf(sub->inputs[0]).value_or(-1);
    if (made_.counted_elems >= 0) return true;
    const ir::Node* const shape = match_.Maker(OneElement(sub->inputs[0]), "Shape");
    if (shape == nullptr || !IsOuter(shape->inputs[0])) return false;
    const int counted = shape->inputs[0];
    const bool is_first =
        IntAttribute(*shape, "start", 0) == 0 && (IntAttribute(*shape, "end", INT64_MAX) == 1 || HasRank(counted, 1));
    const bool is_list = kIndexTypes.Contains(TypeOf(counted)) && value(counted).dims && !value(counted).dims->empty();
    made_.counted = counted;
    return is_first && is_list;
  }

  bool IsTrue(int flag) const {
    if (TypeOf(flag) != DataType::kBool || !value(flag).is_constant()) return false;
    const ops::TensorView& constant = value(flag).constant;
    return constant.elems() == 1 && *static_cast<const bool*>(constant.data);
  }
  std::optional<int64_t> NumberOf(int number) const {
    number = OneElement(number);
    const auto numbers = number < 0 ? std::nullopt : ir::IntsOf(graph_, number);
    return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
  }
  // The same values, of the same type or of a wider one.
  int Same(int value) const {
    for (const ir::Node* node = match_.Maker(value); node != nullptr; node = match_.Maker(value)) {
      const bool is_cast = (node->Is("Cast") || node->Is("CastLike")) && Keeps(node->inputs[0], value);
      if (!is_cast && !node->Is("Identity")) break;
      value = node->inputs[0];
    }
    return value;
  }
  bool Keeps(int from, int to) const {
    return TypeOf(from) == TypeOf(to) || (TypeOf(from) == DataType::kInt32 && TypeOf(to) == DataType::kInt64);
  }
  // The same for one element, whatever its rank.
  int OneElement(int value) const {
    value = Same(value);
    for (const ir::Node* node = match_.Maker(value); node != nullptr; node = match_.Maker(value)) {
      if (!node->Is("Reshape") && !node->Is("Unsqueeze") && !node->Is("Squeeze")) break;
      value = Same(node->inputs[0]);
    }
    return value;
  }

  const LoopBody& body_;
  const ir::Graph& graph_;
  const Matcher match_;
  SegmentLoop made_;
  Position start_, end_;
};

}  // namespace

std::vector<int> SegmentLoop::inputs() const {
  return {rows, starts, ends, count, condition, counted, indices, weights};
}

ops::Attributes SegmentLoop::attributes() const {
  ops::Attributes made{{"reduction", std::string(reduction)}, {"empty_is_zero", int64_t{empty_is_zero}}};
  if (counted_elems >= 0) made.emplace("counted", counted_elems);
  return made;
}

SegmentMatch MatchSegments(const LoopBody& body) { return SegmentMatcher(body).Match(); }

}  // namespace cudaep::graph
