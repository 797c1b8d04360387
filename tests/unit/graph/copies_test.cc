// Which values are copied between host and device memory, as claims have it.
#include "graph/copies.h"

#include <gtest/gtest.h>

#include "core/strings.h"

namespace cudaep::graph {
namespace {

class Copies : public ::testing::Test {
 protected:
  int Value(const char* name) {
    graph_.values.push_back({.name = name});
    return static_cast<int>(graph_.values.size()) - 1;
  }
  int Add(NodeHome home, const std::vector<PlacementUse>& inputs, const char* output, bool host_output = false) {
    const auto node = static_cast<int>(graph_.nodes.size());
    const int value = Value(output);
    graph_.values.back().producer = node;
    graph_.values.back().host_output = host_output;
    graph_.nodes.push_back({.inputs = inputs, .outputs = {value}});
    report_.nodes.push_back({.name = output, .home = home});
    return value;
  }
  // "> x" to the device, "< x" to the host, with their ends.
  std::string Found() const {
    std::string text;
    for (const CopyReport& copy : FindCopies(graph_, report_)) {
      text += StrCat(copy.to_device ? ">" : "<", copy.value, " ", copy.producer);
      for (const int reader : copy.readers) text += StrCat(" ", reader);
      text += ";";
    }
    return text;
  }

  PlacementGraph graph_;
  GraphReport report_;
};

TEST_F(Copies, WhatCrossesIsCopiedOnce) {
  const int x = Value("x");
  const int a = Add(NodeHome::kOurs, {{x}}, "a");
  const int b = Add(NodeHome::kUnsupported, {{a}, {a}}, "b");
  Add(NodeHome::kShapeNode, {{a}}, "c");
  Add(NodeHome::kOurs, {{b}, {-1}}, "d");
  Add(NodeHome::kOurs, {{b}, {a}}, "e");
  EXPECT_EQ(Found(), "<a 0 1 2;>b 1 3 4;");
}

TEST_F(Copies, InputsOfKernelsMayBeInHostMemory) {
  const int x = Value("x");
  const int dims = Add(NodeHome::kOurs, {{x}}, "dims", true);
  const int size = Add(NodeHome::kShapeNode, {{dims}}, "size");
  const int y = Add(NodeHome::kOurs, {{x}, {size, true}}, "y");
  EXPECT_EQ(Found(), "");
  Add(NodeHome::kOurs, {{x}, {y, true}, {size}}, "z");
  EXPECT_EQ(Found(), ">size 1 3;<y 2 3;");
}

TEST_F(Copies, InputsOfTheGraphOnlyWhereBothMemoriesReadThem) {
  const int x = Value("x"), w = Value("w");
  graph_.values[static_cast<size_t>(w)].constant = true;
  Add(NodeHome::kOurs, {{x}, {w}}, "a");
  EXPECT_EQ(Found(), "");
  Add(NodeHome::kUnsupported, {{x}, {w}}, "b");
  EXPECT_EQ(Found(), ">x -1 0;");
  report_.parent = "If node 'i'";
  EXPECT_EQ(Found(), "");
}

TEST_F(Copies, WhatARegionEvaluatesIsNot) {
  const int x = Value("x");
  const int a = Add(NodeHome::kOurs, {{x}}, "a");
  const int dims = Add(NodeHome::kEvaluated, {{a}}, "dims", true);
  const int size = Add(NodeHome::kEvaluated, {{dims}}, "size");
  Add(NodeHome::kOurs, {{a}, {size, true}}, "b");
  EXPECT_EQ(Found(), "");
  const int text = Add(NodeHome::kUnsupported, {{x}}, "text");
  Add(NodeHome::kEvaluated, {{text}}, "more");
  EXPECT_EQ(Found(), ">x -1 0;>text 4 5;");
}

}  // namespace
}  // namespace cudaep::graph
