#include "graph/capture_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cudaep::graph {
namespace {

// x -> first -> a -> second -> y, and what a case makes of it.
class CaptureCheckTest : public testing::Test {
 protected:
  CaptureCheckTest() {
    graph_.values.resize(4);
    for (size_t i = 0; i < 4; ++i) graph_.values[i].name = std::string(1, "xayc"[i]);
    graph_.values[1].producer = 0;
    graph_.values[2].producer = 1;
    graph_.values[3].constant = true;
    graph_.nodes = {{.claimed = true, .inputs = {{0}}, .outputs = {1}}, {.claimed = true, .inputs = {{1}, {-1}, {3}}}};
    graph_.nodes[1].outputs = {2};
    report_.nodes = {{.name = "first", .op_type = "Relu"}, {.name = "second", .op_type = "Neg"}};
  }

  void Refuses(const std::string& text) {
    const Status status = CheckCapturable(graph_, report_);
    EXPECT_EQ(status.code(), StatusCode::kNotSupported);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("enable_cuda_graph"), std::string::npos) << status.message();
  }
  void Accepts() {
    const Status status = CheckCapturable(graph_, report_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  PlacementGraph graph_;
  GraphReport report_;
};

TEST_F(CaptureCheckTest, WorkOnTheDeviceCanBeCaptured) { Accepts(); }

TEST_F(CaptureCheckTest, ControlFlowCannot) {
  for (const char* kind : {"If", "Loop", "Scan"}) {
    report_.nodes[1].op_type = kind;
    Refuses(kind + std::string(" node 'second' is control flow"));
  }
  report_.nodes[1].domain = "mine";
  Accepts();
}

TEST_F(CaptureCheckTest, ALoopThatARegionTookCan) {
  report_.nodes[1].op_type = "Loop";
  report_.nodes[1].region = 0;
  Accepts();
}

TEST_F(CaptureCheckTest, CollectivesCannot) {
  report_.nodes[1].op_type = "AllReduce";
  report_.nodes[1].domain = "ort_cuda_ep";
  Refuses("AllReduce node 'second' works with other ranks");
}

TEST_F(CaptureCheckTest, ANodeOnTheCpuReadsNoValueOfTheDevice) {
  report_.nodes[1].home = NodeHome::kUnsupported;
  report_.nodes[1].reason = "no kernel";
  Refuses(
      "Neg node 'second' (on the CPU: no kernel) reads 'a' in host memory, and Relu node 'first' makes it in device");
  graph_.values[1].host_output = true;
  Accepts();
}

TEST_F(CaptureCheckTest, ANodeOfOursReadsNoValueOfTheCpu) {
  graph_.nodes[0].inputs = {{3}};
  report_.nodes[0].home = NodeHome::kShapeNode;
  Refuses("Neg node 'second' reads 'a' in device memory, and Relu node 'first' (on the CPU) makes it in host memory");
  graph_.nodes[1].inputs[0].host_input = true;
  Accepts();
}

TEST_F(CaptureCheckTest, ContentsOfInputsStayOnTheDevice) {
  graph_.nodes[0].inputs[0].host_input = true;
  Refuses("Relu node 'first' reads the graph's input 'x' in host memory");
  graph_.nodes[0].inputs[0].host_input = false;
  report_.nodes[0].home = NodeHome::kShapeNode;
  graph_.nodes[1].inputs[0].host_input = true;
  Refuses("Relu node 'first' (on the CPU) reads the graph's input 'x' in host memory");
  report_.nodes[0].op_type = "Shape";
  Accepts();
}

TEST_F(CaptureCheckTest, RegionsEvaluateShapesOfWhatIsOnTheDevice) {
  report_.nodes[1].home = NodeHome::kEvaluated;
  Accepts();
  report_.nodes[0].home = NodeHome::kUnsupported;
  graph_.nodes[0].inputs = {{3}};
  Refuses("Neg node 'second' reads 'a' in device memory, and Relu node 'first' (on the CPU) makes it in host memory");
  report_.nodes = {{.name = "first", .op_type = "Shape", .home = NodeHome::kEvaluated}, {.name = "second"}};
  graph_.nodes[0].inputs = {{0}};
  graph_.values[1].host_output = true;
  Accepts();
}

TEST_F(CaptureCheckTest, WhatOursMakesInHostMemoryIsReadThere) {
  graph_.values[1].host_output = true;
  Refuses("reads 'a' in device memory, and Relu node 'first' makes it in host memory");
  graph_.nodes[1].inputs[0].host_input = true;
  Accepts();
}

}  // namespace
}  // namespace cudaep::graph
