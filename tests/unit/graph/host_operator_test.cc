#include "graph/shape/host_operator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "node.h"

namespace cudaep::graph {
namespace {

using ops::HostTensor;
using ops::TensorView;
using I = std::vector<int64_t>;
using F = std::vector<float>;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
constexpr DataType kTypeOf = std::is_same_v<T, int64_t>   ? DataType::kInt64
                             : std::is_same_v<T, int32_t> ? DataType::kInt32
                             : std::is_same_v<T, float>   ? DataType::kFloat
                             : std::is_same_v<T, double>  ? DataType::kDouble
                                                          : DataType::kBool;

// Bools are given as uint8_t.
template <class T = int64_t>
HostTensor Tensor(const I& dims, const std::vector<T>& values) {
  HostTensor tensor{.type = kTypeOf<T>, .dims = Shape(Dims(dims)), .data = {}};
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  tensor.data.assign(bytes, bytes + values.size() * sizeof(T));
  return tensor;
}
template <class T = int64_t>
HostTensor List(const std::vector<T>& values) {
  return Tensor<T>({static_cast<int64_t>(values.size())}, values);
}
HostTensor Absent() { return {}; }

using ops::Attributes;

test::Node MakeNode(const char* op, int version, const std::vector<HostTensor>& inputs, const Attributes& attributes,
                    int outputs = 1) {
  test::Node node("", op, version);
  for (const HostTensor& input : inputs) {
    node.inputs.push_back({.type = input.type, .dims = {}, .values = {}, .replay_values = {}});
  }
  node.attributes = attributes;
  node.outputs.assign(static_cast<size_t>(outputs), DataType::kFloat);
  return node;
}

struct Outcome {
  Status status;
  std::vector<HostTensor> outputs;

  template <class T = int64_t>
  std::vector<T> values(size_t index = 0) const {
    const HostTensor& tensor = outputs.at(index);
    EXPECT_EQ(tensor.type, kTypeOf<T>);
    EXPECT_EQ(tensor.data.size(), static_cast<size_t>(tensor.dims.elems()) * sizeof(T));
    std::vector<T> copy(tensor.data.size() / sizeof(T));
    if (!copy.empty()) std::memcpy(copy.data(), tensor.data.data(), tensor.data.size());
    return copy;
  }
  I dims(size_t index = 0) const {
    return I(outputs.at(index).dims.data(), outputs.at(index).dims.data() + rank(index));
  }
  int rank(size_t index) const { return outputs.at(index).dims.rank(); }
};

Outcome Evaluate(const HostOperator& op, const std::vector<HostTensor>& inputs) {
  std::vector<TensorView> views;
  for (const HostTensor& input : inputs)
    views.push_back(input.type == DataType::kUndefined ? TensorView() : input.view());
  Outcome outcome;
  outcome.status = op.Evaluate(views, outcome.outputs);
  return outcome;
}

// `op` is a name and a version, as "Slice-13".
Outcome Evaluate(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes = {},
                 int outputs = 1) {
  const size_t dash = op.find('-');
  const test::Node node =
      MakeNode(op.substr(0, dash).c_str(), std::stoi(op.substr(dash + 1)), inputs, attributes, outputs);
  Result<std::unique_ptr<HostOperator>> made = MakeHostOperator(node);
  if (!made.ok()) return {made.status(), {}};
  Outcome outcome = Evaluate(**made, inputs);
  if (outcome.status.ok()) {
    EXPECT_EQ(outcome.outputs.size(), static_cast<size_t>(outputs));
  }
  return outcome;
}

I Ints(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes = {}) {
  const Outcome outcome = Evaluate(op, inputs, attributes);
  EXPECT_TRUE(outcome.status.ok()) << op << ": " << outcome.status.ToString();
  return outcome.status.ok() ? outcome.values() : I{-999};
}
template <class T>
std::vector<T> Values(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes = {}) {
  const Outcome outcome = Evaluate(op, inputs, attributes);
  EXPECT_TRUE(outcome.status.ok()) << op << ": " << outcome.status.ToString();
  return outcome.status.ok() ? outcome.values<T>() : std::vector<T>{};
}
std::vector<uint8_t> Bools(const std::string& op, const std::vector<HostTensor>& inputs) {
  return Values<uint8_t>(op, inputs);
}

void ExpectError(StatusCode code, const std::string& text, const Outcome& outcome) {
  EXPECT_EQ(outcome.status.code(), code) << outcome.status.ToString();
  EXPECT_NE(outcome.status.message().find(text), std::string_view::npos) << outcome.status.ToString();
}
void ExpectInvalid(const std::string& text, const Outcome& outcome) {
  ExpectError(StatusCode::kInvalidArgument, text, outcome);
}
void ExpectNotSupported(const std::string& text, const Outcome& outcome) {
  ExpectError(StatusCode::kNotSupported, text, outcome);
}

TEST(HostOperator, ShapeAndSizeLookAtDimensionsAlone) {
  const HostTensor image{.type = DataType::kFloat16, .dims = Shape{2, 3, 224, 5}, .data = {}};
  EXPECT_EQ(Ints("Shape-13", {image}), (I{2, 3, 224, 5}));
  EXPECT_EQ(Ints("Shape-13", {image}, {{"start", int64_t{1}}}), (I{2, 3, 224, 5})) << "no attribute yet";
  EXPECT_EQ(Ints("Shape-15", {image}, {{"start", int64_t{1}}, {"end", int64_t{-1}}}), (I{3, 224}));
  EXPECT_EQ(Ints("Shape-25", {image}, {{"start", int64_t{-9}}, {"end", int64_t{9}}}), (I{2, 3, 224, 5}));
  EXPECT_EQ(Ints("Shape-25", {image}, {{"start", int64_t{3}}, {"end", int64_t{1}}}), I{});
  EXPECT_EQ(Ints("Shape-1", {Tensor<>({}, {7})}), I{});
  EXPECT_EQ(Ints("Size-25", {image}), I{2 * 3 * 224 * 5});
  EXPECT_EQ(Evaluate("Size-1", {image}).dims(), I{});
  ExpectInvalid("64 bits", Evaluate("Size-13", {HostTensor{DataType::kFloat, Shape{kHighest, 2}, {}}}));

  EXPECT_TRUE(ReadsDimsOnly(MakeNode("Shape", 25, {image}, {})));
  EXPECT_TRUE(ReadsDimsOnly(MakeNode("Size", 1, {image}, {})));
  EXPECT_FALSE(ReadsDimsOnly(MakeNode("Gather", 13, {image, image}, {})));
}

TEST(HostOperator, Generators) {
  EXPECT_EQ(Ints("ConstantOfShape-9", {List<>({2, 2})}, {{"value", Tensor<>({1}, {-1})}}), (I{-1, -1, -1, -1}));
  EXPECT_EQ(Values<float>("ConstantOfShape-25", {List<>({3})}), (F{0, 0, 0}));
  EXPECT_EQ(Evaluate("ConstantOfShape-25", {List<>({3, 0})}).dims(), (I{3, 0}));
  EXPECT_EQ(Evaluate("ConstantOfShape-25", {List<>({})}).dims(), I{});
  ExpectInvalid("negative", Evaluate("ConstantOfShape-25", {List<>({3, -1})}));
  ExpectInvalid("one element", Evaluate("ConstantOfShape-25", {List<>({3})}, {{"value", List<>({1, 2})}}));
  ExpectInvalid("no element", Evaluate("ConstantOfShape-25", {List<>({3})}, {{"value", Tensor<>({1}, {})}}));
  ExpectNotSupported("int8", Evaluate("ConstantOfShape-25", {List<>({3})},
                                      {{"value", HostTensor{DataType::kInt8, Shape{1}, {std::byte{1}}}}}));
  ExpectInvalid("4096", Evaluate("ConstantOfShape-25", {List<>({64, 65})}));
  ExpectInvalid("64 bits", Evaluate("ConstantOfShape-25", {List<>({kHighest, kHighest})}));
  EXPECT_EQ(Evaluate("ConstantOfShape-25", {List<>({64, 64})}).values<float>().size(), 4096u);

  const auto scalar = [](int64_t value) { return Tensor<>({}, {value}); };
  EXPECT_EQ(Ints("Range-11", {scalar(3), scalar(10), scalar(3)}), (I{3, 6, 9}));
  EXPECT_EQ(Ints("Range-27", {scalar(10), scalar(4), scalar(-2)}), (I{10, 8, 6}));
  EXPECT_EQ(Ints("Range-11", {scalar(4), scalar(4), scalar(1)}), I{});
  EXPECT_EQ(Ints("Range-11", {scalar(kLowest), scalar(kHighest), scalar(kHighest)}), (I{kLowest, -1, kHighest - 1}));
  EXPECT_EQ(Values<float>("Range-11", {Tensor<float>({}, {1}), Tensor<float>({1}, {2}), Tensor<float>({}, {0.25f})}),
            (F{1, 1.25f, 1.5f, 1.75f}));
  EXPECT_EQ(Values<int32_t>("Range-11", {List<int32_t>({1}), List<int32_t>({4}), List<int32_t>({2})}),
            (std::vector<int32_t>{1, 3}));
  ExpectInvalid("delta is 0", Evaluate("Range-11", {scalar(1), scalar(4), scalar(0)}));
  ExpectInvalid("4096", Evaluate("Range-11", {scalar(0), scalar(4097), scalar(1)}));
  ExpectInvalid("range", Evaluate("Range-11", {scalar(kLowest), scalar(kHighest), scalar(1)}));
  ExpectInvalid("range", Evaluate("Range-11", {List<float>({0}), List<float>({kNan}), List<float>({1})}));
  ExpectInvalid("one element", Evaluate("Range-11", {List<>({1, 2}), scalar(4), scalar(1)}));
  ExpectInvalid("input 2", Evaluate("Range-11", {scalar(1), scalar(4), List<float>({1})}));
}

TEST(HostOperator, Gather) {
  EXPECT_EQ(Ints("Gather-13", {List<>({5, 6, 7}), Tensor<>({}, {-1})}), I{7});
  EXPECT_EQ(Evaluate("Gather-1", {List<>({5, 6, 7}), Tensor<>({}, {-1})}).dims(), I{});
  const HostTensor table = Tensor<>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Outcome columns = Evaluate("Gather-11", {table, Tensor<int32_t>({2, 1}, {2, -3})}, {{"axis", int64_t{-1}}});
  EXPECT_EQ(columns.dims(), (I{2, 2, 1}));
  EXPECT_EQ(columns.values(), (I{3, 1, 6, 4}));
  EXPECT_EQ(Ints("Gather-13", {table, List<>({1})}), (I{4, 5, 6}));
  EXPECT_EQ(Bools("Gather-13", {List<uint8_t>({1, 0}), List<>({1, 0, 0})}), (std::vector<uint8_t>{0, 1, 1}));
  ExpectInvalid("index 3", Evaluate("Gather-13", {List<>({5, 6, 7}), List<>({3})}));
  ExpectInvalid("index -4", Evaluate("Gather-13", {List<>({5, 6, 7}), List<>({-4})}));
  ExpectInvalid("index 0", Evaluate("Gather-13", {Tensor<>({0, 2}, {}), List<>({0})}));
  ExpectInvalid("Gather node 'test'", Evaluate("Gather-13", {List<>({5, 6, 7}), List<>({3})}));
  ExpectInvalid("axis", Evaluate("Gather-13", {Tensor<>({}, {5}), List<>({0})}));
  ExpectInvalid("indices", Evaluate("Gather-13", {List<>({5, 6, 7}), List<float>({0})}));
}

TEST(HostOperator, ConcatAndSplit) {
  EXPECT_EQ(Ints("Concat-4", {List<>({1, 2}), List<>({}), List<>({3})}, {{"axis", int64_t{0}}}), (I{1, 2, 3}));
  EXPECT_EQ(Ints("Concat-13", {List<>({1}), List<>({2}), List<>({3})}, {{"axis", int64_t{-1}}}), (I{1, 2, 3}));
  const Outcome columns =
      Evaluate("Concat-13", {Tensor<>({2, 2}, {1, 2, 3, 4}), Tensor<>({2, 1}, {8, 9})}, {{"axis", int64_t{-1}}});
  EXPECT_EQ(columns.dims(), (I{2, 3}));
  EXPECT_EQ(columns.values(), (I{1, 2, 8, 3, 4, 9}));
  ExpectInvalid("axis", Evaluate("Concat-13", {List<>({1})}));
  ExpectInvalid("does not fit", Evaluate("Concat-13", {List<>({1}), Tensor<>({1, 1}, {1})}, {{"axis", int64_t{0}}}));
  ExpectInvalid("does not fit",
                Evaluate("Concat-13", {Tensor<>({1, 2}, {1, 2}), Tensor<>({1, 1}, {1})}, {{"axis", int64_t{0}}}));

  const HostTensor seven = List<>({1, 2, 3, 4, 5, 6, 7});
  const Outcome uneven = Evaluate("Split-18", {seven}, {{"num_outputs", int64_t{3}}}, 3);
  EXPECT_EQ(uneven.values(0), (I{1, 2, 3}));
  EXPECT_EQ(uneven.values(2), I{7});
  const Outcome sized = Evaluate("Split-13", {seven, List<>({0, 5, 2})}, {}, 3);
  EXPECT_EQ(sized.values(0), I{});
  EXPECT_EQ(sized.values(1), (I{1, 2, 3, 4, 5}));
  EXPECT_EQ(sized.values(2), (I{6, 7}));
  const Outcome old =
      Evaluate("Split-2", {Tensor<>({2, 3}, {1, 2, 3, 4, 5, 6})}, {{"axis", int64_t{1}}, {"split", I{1, 2}}}, 2);
  EXPECT_EQ(old.values(0), (I{1, 4}));
  EXPECT_EQ(old.values(1), (I{2, 3, 5, 6}));
  const Outcome singles = Evaluate("Split-13", {List<>({1, 2, 3})}, {}, 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(singles.values(i), I{static_cast<int64_t>(i) + 1});
  ExpectInvalid("equal parts", Evaluate("Split-13", {seven}, {}, 2));
  ExpectInvalid("does not divide", Evaluate("Split-13", {seven, List<>({4, 4})}, {}, 2));
  ExpectInvalid("num_outputs", Evaluate("Split-18", {seven}, {{"num_outputs", int64_t{2}}}, 3));
}

TEST(HostOperator, ElementsInOrder) {
  const HostTensor six = List<>({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Ints("Identity-16", {six}), (I{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Evaluate("Unsqueeze-11", {six}, {{"axes", I{0, -1}}}).dims(), (I{1, 6, 1}));
  EXPECT_EQ(Evaluate("Unsqueeze-13", {six, Tensor<>({}, {1})}).dims(), (I{6, 1}));
  EXPECT_EQ(Evaluate("Unsqueeze-13", {Tensor<>({}, {4}), List<>({0})}).values(), I{4});
  ExpectInvalid("twice", Evaluate("Unsqueeze-13", {six, List<>({0, -3})}));
  ExpectInvalid("axis", Evaluate("Unsqueeze-13", {six, List<>({5})}));
  ExpectInvalid("axes", Evaluate("Unsqueeze-11", {six}));
  ExpectInvalid("no input 1", Evaluate("Unsqueeze-13", {six}));

  const HostTensor boxed = Tensor<>({1, 6, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Evaluate("Squeeze-1", {boxed}).dims(), I{6});
  EXPECT_EQ(Evaluate("Squeeze-11", {boxed}, {{"axes", I{-1}}}).dims(), (I{1, 6}));
  EXPECT_EQ(Evaluate("Squeeze-13", {boxed, List<>({0})}).dims(), (I{6, 1}));
  EXPECT_EQ(Evaluate("Squeeze-25", {boxed, Absent()}).values(), (I{1, 2, 3, 4, 5, 6}));
  ExpectInvalid("cannot be squeezed", Evaluate("Squeeze-13", {boxed, List<>({1})}));

  EXPECT_EQ(Evaluate("Reshape-5", {boxed, List<>({0, -1, 2})}).dims(), (I{1, 3, 2}));
  EXPECT_EQ(Evaluate("Reshape-14", {Tensor<>({0, 3}, {}), List<>({3, 0})}, {{"allowzero", int64_t{1}}}).dims(),
            (I{3, 0}));
  ExpectInvalid("reshaped", Evaluate("Reshape-14", {six, List<>({4, -1})}));
  ExpectInvalid("more than one", Evaluate("Reshape-14", {six, List<>({-1, -1})}));
  ExpectInvalid("copies", Evaluate("Reshape-14", {six, List<>({6, 0})}));
}

TEST(HostOperator, StridedViews) {
  const HostTensor table = Tensor<>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Ints("Transpose-1", {table}), (I{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(Evaluate("Transpose-25", {Tensor<>({1, 2, 3}, {1, 2, 3, 4, 5, 6})}, {{"perm", I{2, 0, 1}}}).dims(),
            (I{3, 1, 2}));
  EXPECT_EQ(Ints("Transpose-13", {Tensor<>({1, 2, 3}, {1, 2, 3, 4, 5, 6})}, {{"perm", I{2, 0, 1}}}),
            (I{1, 4, 2, 5, 3, 6}));
  ExpectInvalid("permutation", Evaluate("Transpose-13", {table}, {{"perm", I{0, 0}}}));

  EXPECT_EQ(Ints("Expand-8", {Tensor<>({2, 1}, {1, 2}), List<>({2, 1, 3})}), (I{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(Evaluate("Expand-13", {Tensor<>({3, 1}, {1, 2, 3}), List<>({1})}).dims(), (I{3, 1}));
  ExpectInvalid("[2]", Evaluate("Expand-13", {List<>({1, 2, 3}), List<>({2})}));
  ExpectInvalid("4096", Evaluate("Expand-13", {List<>({1}), List<>({5000})}));
  ExpectInvalid("64 bits", Evaluate("Expand-13", {List<>({1}), List<>({kHighest, kHighest})}));

  EXPECT_EQ(Ints("Tile-6", {Tensor<>({1, 2}, {1, 2}), List<>({2, 2})}), (I{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(Evaluate("Tile-13", {List<>({1, 2}), List<>({0})}).dims(), I{0});
  ExpectInvalid("repeats", Evaluate("Tile-13", {table, List<>({2})}));
  ExpectInvalid("negative", Evaluate("Tile-13", {List<>({1}), List<>({-1})}));
  ExpectInvalid("64 bits", Evaluate("Tile-13", {List<>({1, 2, 3}), List<>({kHighest})}));

  EXPECT_EQ(Ints("Slice-1", {table}, {{"starts", I{1}}, {"ends", I{kHighest}}, {"axes", I{1}}}), (I{2, 3, 5, 6}));
  const HostTensor six = List<>({1, 2, 3, 4, 5, 6});
  const auto slice = [&](int64_t start, int64_t end, int64_t step) {
    return Ints("Slice-13", {six, List<>({start}), List<>({end}), List<>({0}), List<>({step})});
  };
  EXPECT_EQ(slice(1, -1, 2), (I{2, 4}));
  EXPECT_EQ(slice(-1, kLowest, -2), (I{6, 4, 2}));
  EXPECT_EQ(slice(4, 1, -1), (I{5, 4, 3}));
  EXPECT_EQ(slice(9, kLowest, kLowest), I{6});
  EXPECT_EQ(slice(0, 9, kHighest), I{1});
  EXPECT_EQ(slice(3, 3, 1), I{});
  EXPECT_EQ(Ints("Slice-10", {table, List<int32_t>({-1}), List<int32_t>({2})}), (I{4, 5, 6}));
  EXPECT_EQ(Ints("Slice-11", {six, List<>({4}), List<>({6}), Absent(), List<>({1})}), (I{5, 6}));
  ExpectInvalid("is 0", Evaluate("Slice-13", {six, List<>({0}), List<>({1}), List<>({0}), List<>({0})}));
  ExpectInvalid("twice", Evaluate("Slice-13", {table, List<>({0, 0}), List<>({1, 1}), List<>({1, -1})}));
  ExpectInvalid("length", Evaluate("Slice-13", {table, List<>({0, 0}), List<>({1})}));
  ExpectInvalid("no input 2", Evaluate("Slice-13", {table, List<>({0})}));
}

TEST(HostOperator, IntegersWrapAndNeverTrap) {
  const HostTensor ends = List<>({kHighest, kLowest}), ones = List<>({1, -1});
  EXPECT_EQ(Ints("Add-14", {ends, ones}), (I{kLowest, kHighest}));
  EXPECT_EQ(Ints("Sub-7", {ends, List<>({-1, 1})}), (I{kLowest, kHighest}));
  EXPECT_EQ(Ints("Mul-13", {ends, List<>({2, -1})}), (I{-2, kLowest}));
  EXPECT_EQ(Ints("Neg-6", {ends}), (I{-kHighest, kLowest}));
  EXPECT_EQ(Ints("Abs-13", {ends}), (I{kHighest, kLowest}));
  EXPECT_EQ(Ints("Sign-9", {List<>({kLowest, 0, 7})}), (I{-1, 0, 1}));
  EXPECT_EQ(Ints("Div-14", {List<>({7, -7, 7, -7}), List<>({2, 2, -2, -2})}), (I{3, -3, -3, 3}));
  EXPECT_EQ(Values<int32_t>("Add-7", {List<int32_t>({INT32_MAX}), List<int32_t>({1})}),
            std::vector<int32_t>{INT32_MIN});
  ExpectInvalid("division by zero in element 1", Evaluate("Div-14", {List<>({7, 7}), List<>({1, 0})}));
  ExpectInvalid("division by zero", Evaluate("Div-7", {List<int32_t>({7}), List<int32_t>({0})}));
  ExpectInvalid("beyond", Evaluate("Div-14", {List<>({kLowest}), List<>({-1})}));
  ExpectInvalid("beyond", Evaluate("Div-14", {List<int32_t>({INT32_MIN}), List<int32_t>({-1})}));
  EXPECT_EQ(Ints("Div-14", {List<>({}), List<>({0})}), I{}) << "nothing is divided";

  const HostTensor a = List<>({7, -7, 7, -7, kLowest, 6}), b = List<>({3, 3, -3, -3, -1, -3});
  EXPECT_EQ(Ints("Mod-10", {a, b}), (I{1, 2, -2, -1, 0, 0}));
  EXPECT_EQ(Ints("Mod-28", {a, b}, {{"fmod", int64_t{1}}}), (I{1, -1, 1, -1, 0, 0}));
  ExpectInvalid("division by zero", Evaluate("Mod-13", {List<>({7}), List<>({0})}));
  ExpectInvalid("division by zero", Evaluate("Mod-13", {List<>({7}), List<>({0})}, {{"fmod", int64_t{1}}}));
}

TEST(HostOperator, FloatsFollowIeee) {
  EXPECT_EQ(Values<float>("Div-14", {List<float>({1, -1}), List<float>({0, 0})}), (F{kInfinity, -kInfinity}));
  EXPECT_EQ(Values<float>("Mod-13", {List<float>({5.5f, -5.5f}), List<float>({2, 2})}, {{"fmod", int64_t{1}}}),
            (F{1.5f, -1.5f}));
  const F floored =
      Values<float>("Mod-28", {List<float>({5.5f, -5.5f, 4, 3, -3}), List<float>({-2, 2, -2, -kInfinity, kInfinity})});
  EXPECT_EQ(floored, (F{-0.5f, 0.5f, -0.0f, -kInfinity, kInfinity}));
  EXPECT_TRUE(std::signbit(floored[2]));
  EXPECT_TRUE(std::isnan(Values<float>("Mod-28", {List<float>({1}), List<float>({0})})[0]));
  ExpectNotSupported("fmod=1", Evaluate("Mod-13", {List<float>({1}), List<float>({1})}));

  EXPECT_EQ(Values<float>("Sqrt-13", {List<float>({9, 2.25f})}), (F{3, 1.5f}));
  EXPECT_EQ(Values<float>("Floor-6", {List<float>({-1.5f, 1.5f})}), (F{-2, 1}));
  EXPECT_EQ(Values<float>("Ceil-13", {List<float>({-1.5f, 1.5f})}), (F{-1, 2}));
  EXPECT_EQ(Values<float>("Round-22", {List<float>({0.5f, 1.5f, -2.5f, 2.6f})}), (F{0, 2, -2, 3}));
  EXPECT_EQ(Values<double>("Neg-13", {List<double>({1.5, -2})}), (std::vector<double>{-1.5, 2}));
  EXPECT_EQ(Values<float>("Abs-6", {List<float>({-1.5f, 2})}), (F{1.5f, 2}));
  EXPECT_EQ(Values<float>("Sign-13", {List<float>({-1.5f, 0, 2})}), (F{-1, 0, 1}));
  ExpectNotSupported("int64", Evaluate("Sqrt-13", {List<>({4})}));
  ExpectNotSupported("bool", Evaluate("Abs-13", {List<uint8_t>({1})}));
}

TEST(HostOperator, MinAndMaxTakeAnyNumber) {
  EXPECT_EQ(Ints("Min-12", {List<>({1, 5, 9}), Tensor<>({2, 1}, {4, 6}), Tensor<>({}, {7})}), (I{1, 4, 4, 1, 5, 6}));
  EXPECT_EQ(Ints("Max-13", {Tensor<>({}, {3}), List<>({1, 5})}), (I{3, 5}));
  EXPECT_EQ(Ints("Max-13", {List<>({1, 5})}), (I{1, 5}));
  const F extrema = Values<float>("Max-8", {List<float>({kNan, 1, 2}), List<float>({1, kNan, 3})});
  EXPECT_TRUE(std::isnan(extrema[0]) && std::isnan(extrema[1]));
  EXPECT_EQ(extrema[2], 3);
  ExpectInvalid("[3]", Evaluate("Min-13", {List<>({1, 2}), List<>({1, 2, 3})}));
  ExpectInvalid("no input 1", Evaluate("Min-13", {List<>({1, 2}), Absent(), List<>({1, 2})}));
  ExpectNotSupported("bool", Evaluate("Min-13", {List<uint8_t>({1})}));
}

TEST(HostOperator, Pow) {
  EXPECT_EQ(Ints("Pow-12", {List<>({2, -3, 0, 5}), List<>({10, 3, 0, 1})}), (I{1024, -27, 1, 5}));
  EXPECT_EQ(Ints("Pow-15", {List<>({2, 1, -1, -1, 0}), List<int32_t>({-1, -5, -2, -3, -1})}), (I{0, 1, 1, -1, 0}));
  EXPECT_EQ(Ints("Pow-13", {List<>({3}), List<>({41})}), I{-420491770248316829});
  EXPECT_EQ(Ints("Pow-13", {List<>({2, 10}), List<float>({0.5f, 30})}), (I{1, kHighest}));
  EXPECT_EQ(Values<float>("Pow-7", {List<float>({2, 9}), List<float>({-1, 0.5f})}), (F{0.5f, 3}));
  EXPECT_EQ(Values<float>("Pow-13", {List<float>({1.5f}), List<>({2})}), F{2.25f});
  ExpectNotSupported("bool", Evaluate("Pow-13", {List<float>({1.5f}), List<uint8_t>({1})}));
}

TEST(HostOperator, ComparisonsAndLogic) {
  using B = std::vector<uint8_t>;
  const HostTensor a = List<>({1, 2, 3}), two = Tensor<>({}, {2});
  EXPECT_EQ(Bools("Equal-7", {a, two}), (B{0, 1, 0}));
  EXPECT_EQ(Bools("Greater-9", {a, two}), (B{0, 0, 1}));
  EXPECT_EQ(Bools("GreaterOrEqual-16", {a, two}), (B{0, 1, 1}));
  EXPECT_EQ(Bools("Less-13", {a, two}), (B{1, 0, 0}));
  EXPECT_EQ(Bools("LessOrEqual-12", {a, two}), (B{1, 1, 0}));
  EXPECT_EQ(Bools("Equal-19", {List<float>({kNan, 0.0f}), List<float>({kNan, -0.0f})}), (B{0, 1}));
  const HostTensor p = List<uint8_t>({0, 0, 1, 1}), q = List<uint8_t>({0, 1, 0, 1});
  EXPECT_EQ(Bools("Equal-13", {p, q}), (B{1, 0, 0, 1}));
  EXPECT_EQ(Bools("And-7", {p, q}), (B{0, 0, 0, 1}));
  EXPECT_EQ(Bools("Or-7", {p, q}), (B{0, 1, 1, 1}));
  EXPECT_EQ(Bools("Not-1", {p}), (B{1, 1, 0, 0}));
  ExpectNotSupported("int64", Evaluate("Not-1", {a}));
  ExpectNotSupported("int64", Evaluate("And-7", {a, a}));
  ExpectNotSupported("bool", Evaluate("Less-13", {p, q}));
  ExpectInvalid("int64 and float", Evaluate("Equal-13", {a, List<float>({1})}));

  const Outcome chosen = Evaluate("Where-16", {Tensor<uint8_t>({2, 1}, {1, 0}), a, two});
  EXPECT_EQ(chosen.dims(), (I{2, 3}));
  EXPECT_EQ(chosen.values(), (I{1, 2, 3, 2, 2, 2}));
  EXPECT_EQ(Bools("Where-9", {p, q, p}), (B{0, 0, 0, 1}));
  ExpectInvalid("condition", Evaluate("Where-16", {a, a, a}));
  ExpectInvalid("int64 and float", Evaluate("Where-16", {p, a, List<float>({1})}));
}

TEST(HostOperator, Cast) {
  const auto to = [](DataType type) { return Attributes{{"to", static_cast<int64_t>(type)}}; };
  const HostTensor floats = List<float>({1.9f, -1.9f, kNan, 1e30f, -1e30f, kInfinity});
  EXPECT_EQ(Ints("Cast-6", {floats}, to(DataType::kInt64)), (I{1, -1, 0, kHighest, kLowest, kHighest}));
  EXPECT_EQ(Values<int32_t>("Cast-13", {floats}, to(DataType::kInt32)),
            (std::vector<int32_t>{1, -1, 0, INT32_MAX, INT32_MIN, INT32_MAX}));
  EXPECT_EQ(Values<int32_t>("Cast-25", {List<>({int64_t{1} << 32, -1})}, to(DataType::kInt32)),
            (std::vector<int32_t>{0, -1}));
  EXPECT_EQ(Values<uint8_t>("Cast-28", {List<double>({0, -0.0, 0.1, NAN})}, to(DataType::kBool)),
            (std::vector<uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ(Values<float>("Cast-9", {List<uint8_t>({0, 1})}, to(DataType::kFloat)), (F{0, 1}));
  EXPECT_EQ(Values<double>("Cast-9", {List<>({3})}, to(DataType::kDouble)), std::vector<double>{3});
  ExpectNotSupported("float16", Evaluate("Cast-13", {floats}, to(DataType::kFloat16)));
  ExpectNotSupported("undefined", Evaluate("Cast-13", {floats}, {{"to", int64_t{300}}}));
  ExpectInvalid("attribute to", Evaluate("Cast-13", {floats}));
}

TEST(HostOperator, Reductions) {
  const HostTensor table = Tensor<>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Ints("ReduceProd-1", {table}), I{720});
  EXPECT_EQ(Evaluate("ReduceProd-11", {table}, {{"keepdims", int64_t{0}}}).dims(), I{});
  EXPECT_EQ(Ints("ReduceSum-11", {table}, {{"axes", I{-1}}}), (I{6, 15}));
  EXPECT_EQ(Ints("ReduceSum-13", {table, List<>({0})}), (I{5, 7, 9}));
  EXPECT_EQ(Ints("ReduceMin-18", {table, List<>({1})}), (I{1, 4}));
  EXPECT_EQ(Ints("ReduceMax-13", {table}, {{"axes", I{0}}}), (I{4, 5, 6}));
  const Attributes noop{{"noop_with_empty_axes", int64_t{1}}};
  EXPECT_EQ(Ints("ReduceSum-13", {table, List<>({})}, noop), (I{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Ints("ReduceProd-18", {table, Absent()}, noop), (I{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Ints("ReduceProd-18", {table, List<>({})}), I{720});
  EXPECT_EQ(Ints("ReduceSum-13", {Tensor<>({2, 0}, {}), List<>({1})}), (I{0, 0}));
  EXPECT_EQ(Ints("ReduceProd-13", {Tensor<>({2, 0}, {})}, {{"axes", I{1}}}), (I{1, 1}));
  EXPECT_EQ(Ints("ReduceMin-20", {List<>({})}), I{kHighest});
  EXPECT_EQ(Values<float>("ReduceMax-20", {List<float>({})}), F{-kInfinity});
  EXPECT_EQ(Bools("ReduceMin-20", {List<uint8_t>({1, 0})}), std::vector<uint8_t>{0});
  EXPECT_EQ(Bools("ReduceMax-20", {List<uint8_t>({1, 0})}), std::vector<uint8_t>{1});
  EXPECT_EQ(Values<float>("ReduceSum-13", {List<float>({1e8f, 1, -1e8f})}), F{1}) << "adds in double";
  EXPECT_TRUE(std::isnan(Values<float>("ReduceMin-18", {List<float>({1, kNan, 0})})[0]));
  ExpectInvalid("64 bits", Evaluate("ReduceSum-13", {Tensor<>({kHighest, kHighest, 0}, {})}));
  ExpectInvalid("axis 2", Evaluate("ReduceSum-13", {table, List<>({2})}));
  ExpectInvalid("axes", Evaluate("ReduceSum-13", {table, List<float>({0})}));
  ExpectNotSupported("bool", Evaluate("ReduceSum-13", {List<uint8_t>({1})}));
}

TEST(HostOperator, RefusesByName) {
  const HostTensor a = List<>({1});
  ExpectNotSupported("ai.onnx.CumSum is not evaluated", Evaluate("CumSum-14", {a, a}));
  ExpectNotSupported("version 99 of Add", Evaluate("Add-99", {a, a}));
  ExpectNotSupported("version 6 of Add", Evaluate("Add-6", {a, a}));
  ExpectNotSupported("float16", Evaluate("Add-14", {HostTensor{DataType::kFloat16, Shape{1}, {}}, a}));
  ExpectInvalid("no input 1", Evaluate("Add-14", {a}));
  ExpectInvalid("no input 0", Evaluate("Shape-13", {Absent()}));
  test::Node contrib("com.microsoft", "Range", 1);
  EXPECT_EQ(MakeHostOperator(contrib).status().code(), StatusCode::kNotSupported);
  EXPECT_NE(MakeHostOperator(contrib).status().message().find("com.microsoft.Range"), std::string_view::npos);
}

TEST(HostOperator, ChecksWhatItIsGiven) {
  const HostTensor a = List<>({1, 2});
  const auto made = MakeHostOperator(MakeNode("Add", 14, {a, a}, {}));
  ASSERT_TRUE(made.ok());
  const HostOperator& add = *made.value();
  EXPECT_EQ(Evaluate(add, {a, a}).values(), (I{2, 4}));
  ExpectInvalid("1 inputs", Evaluate(add, {a}));
  ExpectInvalid("input 1 is float", Evaluate(add, {a, List<float>({1, 2})}));
  ExpectInvalid("input 1 is undefined", Evaluate(add, {a, Absent()}));
  ExpectInvalid("values of input 0", Evaluate(add, {HostTensor{DataType::kInt64, Shape{2}, {}}, a}));
  ExpectInvalid("negative", Evaluate(add, {HostTensor{DataType::kInt64, Shape{-2}, {}}, a}));
  ExpectInvalid("[2] and [3]", Evaluate(add, {a, List<>({1, 2, 3})}));
}

TEST(HostOperator, ServesManyThreads) {
  const HostTensor data = List<>({2, 3, 4}), index = List<>({2, 0});
  const auto made = MakeHostOperator(MakeNode("Gather", 13, {data, index}, {}));
  ASSERT_TRUE(made.ok());
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int& count : right) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) count += Evaluate(*made.value(), {data, index}).values() == I{4, 2} ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 200));
}

}  // namespace
}  // namespace cudaep::graph
