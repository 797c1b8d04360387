#include "graph/placement_report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "core/strings.h"

namespace cudaep::graph {
namespace {

NodeReport Node(const std::string& name, NodeHome home = NodeHome::kOurs, const std::string& reason = "") {
  return {.name = name,
          .first_output = name + "_out",
          .op_type = "Add",
          .domain = "",
          .since_version = 14,
          .home = home,
          .reason = reason};
}

GraphReport Graph(std::vector<NodeReport> nodes, const std::string& parent = "",
                  std::vector<std::string> outputs = {"y"}) {
  return {.name = "g", .parent = parent, .outputs = std::move(outputs), .nodes = std::move(nodes)};
}

TEST(PlacementReport, NodesWithoutANameAreToldApartByTheirOutput) {
  EXPECT_EQ(Label(Node("a")), "Add node 'a'");
  NodeReport unnamed = Node("");
  unnamed.first_output = "y";
  EXPECT_EQ(Label(unnamed), "Add node with output 'y'");
}

TEST(PlacementReport, TheSummaryCountsAndGivesReasons) {
  EXPECT_EQ(Summary(Graph({Node("a"), Node("b", NodeHome::kShapeNode)})),
            "1 of 2 nodes, 1 shape nodes left to the CPU");
  EXPECT_EQ(Summary(Graph({Node("a"), Node("b", NodeHome::kUnsupported, "no kernel")})),
            "1 of 2 nodes, 0 shape nodes left to the CPU; elsewhere:\n  Add node 'b': no kernel");
}

TEST(PlacementReport, TheWarningNamesWhatWeRefuse) {
  EXPECT_EQ(
      Warning(Graph({Node("a"), Node("s", NodeHome::kShapeNode), Node("c", NodeHome::kOtherTaken, "taken by X")})), "");
  NodeReport ours = Node("b", NodeHome::kUnsupported, "a mode that is not offered");
  ours.domain = "com.microsoft";
  NodeReport call = Node("f", NodeHome::kUnsupported, "no kernel");
  call.domain = "the.models.own";
  EXPECT_EQ(Warning(Graph({Node("a"), ours, call})),
            "left to other providers, without whose kernels the host ends the session:\n"
            "  Add node 'b': a mode that is not offered");
}

TEST(PlacementReport, TheSummaryCountsRegions) {
  NodeReport joined = Node("a"), shape = Node("s", NodeHome::kEvaluated);
  joined.region = shape.region = 3;
  EXPECT_EQ(Summary(Graph({joined, shape, Node("b")})),
            "2 of 3 nodes, 0 shape nodes left to the CPU, 2 nodes in 1 compiled regions, 1 of them shape nodes");
}

TEST(PlacementReport, NodesOfARegionAreShownAfterItIsOne) {
  PlacementReport report;
  EXPECT_EQ(report.AddRegions(2), 0);
  EXPECT_EQ(report.AddRegions(1), 2);
  GraphReport before = Graph({Node("a"), Node("b"), Node("c")});
  before.nodes[0].region = before.nodes[1].region = 1;
  report.Add(before);
  report.SetRegion("b_out", {.steps = {{.op_type = "Sum", .domain = "d", .sources = {"a", "b"}, .once = true}},
                             .notes = {{Fusion::kNorm, {"a", "b"}}, {Fusion::kNorm, {"c"}, "the axis"}}});
  report.SetRegion("c_out", {.steps = {{.op_type = "Nobody"}}, .notes = {}});
  NodeReport region = Node("fused");
  region.first_output = "b_out";
  region.is_region = true;
  report.Add(Graph({region, Node("d")}));
  const std::string json = report.ToJson("EP", "simulated", {});
  const auto at = [&](std::string_view text) { return json.find(text); };
  EXPECT_EQ(at("fused"), std::string::npos) << json;
  EXPECT_EQ(at("Nobody"), std::string::npos) << json;
  EXPECT_LT(at(R"("first_output": "b_out", "op_type": "Add", "domain": "", "since_version": 14, )"
               R"("placement": "provider", "region": 1, )"),
            at(R"("name": "d")"))
      << json;
  EXPECT_LT(at(R"("name": "d")"), at(R"("name": "a")")) << json;
  EXPECT_TRUE(json.ends_with(R"("regions": [
{"number": 1, "steps": [
{"op_type": "Sum", "domain": "d", "on_host": false, "once": true, "nodes": ["a", "b"]}],
"rewritten": [
{"name": "norm", "nodes": ["a", "b"]}],
"missed": [
{"name": "norm", "nodes": ["c"], "reason": "the axis"}]}]}
)")) << json;
}

TEST(PlacementReport, ShapeNodesMayBeElsewhere) {
  EXPECT_TRUE(CheckAllComputeNodes(Graph({Node("a"), Node("s", NodeHome::kShapeNode)}), "EP").ok());
  EXPECT_TRUE(CheckAllComputeNodes(Graph({Node("a"), Node("s", NodeHome::kEvaluated)}), "EP").ok());
  EXPECT_TRUE(CheckAllComputeNodes(Graph({}), "EP").ok());
}

TEST(PlacementReport, AComputeNodeElsewhereIsNamedWithItsReason) {
  const Status status = CheckAllComputeNodes(
      Graph({Node("a"), Node("s", NodeHome::kShapeNode), Node("e", NodeHome::kEvaluated),
             Node("b", NodeHome::kUnsupported, "no kernel"), Node("c", NodeHome::kOtherTaken, "taken by X")}),
      "EP");
  EXPECT_EQ(status.code(), StatusCode::kNotSupported);
  EXPECT_EQ(status.message(),
            "require_all_compute_nodes is set, and 2 of 3 compute nodes are not on EP:\n"
            "  Add node 'b': no kernel\n  Add node 'c': taken by X");
}

TEST(PlacementReport, TheGraphsInsideANodeAreCountedTogether) {
  PlacementReport report;
  GraphReport other = Graph({Node("b", NodeHome::kShapeNode)}, "If node 'i'");
  other.name = "else";
  report.Add(Graph({Node("a"), Node("c", NodeHome::kUnsupported, "no kernel")}, "If node 'i'"));
  report.Add(other);
  report.Add(other);
  report.Add(Graph({Node("d"), Node("e")}, "Loop node 'l'"));
  const NodeCount inside = report.Inside("If node 'i'");
  EXPECT_EQ(inside.all, 3u);
  EXPECT_EQ(inside.ours, 1u);
  EXPECT_EQ(inside.elsewhere, 1u);
  EXPECT_EQ(report.Inside("If node 'j'").all, 0u);
}

TEST(PlacementReport, WhatIsInsideANodeIsForgottenWithWhatIsInsideThat) {
  PlacementReport report;
  NodeReport inner = Node("i");
  inner.op_type = "If";
  report.Add(Graph({Node("a")}, "If node 'i'"));
  report.Add(Graph({inner}, "Loop node 'l'"));
  report.Add(Graph({Node("b")}, "Loop node 'm'"));
  NodeReport loop = Node("l"), other = Node("m");
  loop.op_type = other.op_type = "Loop";
  EXPECT_EQ(report.Within(Graph({loop, other})).size(), 3u);
  EXPECT_EQ(report.Within(Graph({loop})).size(), 2u);
  report.ForgetInside("Loop node 'l'");
  const std::vector<const GraphReport*> left = report.Within(Graph({loop, other}));
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0]->parent, "Loop node 'm'");
}

TEST(PlacementReport, WhatWasMissedOutsideOfRegionsIsInTheJson) {
  PlacementReport report;
  EXPECT_EQ(report.ToJson("P", "B", {}).find("missed"), std::string::npos);
  report.SetMissed({{Fusion::kEmbeddingBag, {"Loop node 'l'"}, "why"}});
  EXPECT_NE(report.ToJson("P", "B", {})
                .find("{\"name\": \"embedding_bag\", \"nodes\": [\"Loop node 'l'\"], "
                      "\"reason\": \"why\"}"),
            std::string::npos);
}

TEST(PlacementReport, ASubgraphIsNamed) {
  const Status status =
      CheckAllComputeNodes(Graph({Node("b", NodeHome::kUnsupported, "no kernel")}, "If node 'i'"), "EP");
  EXPECT_NE(status.message().find("1 of 1 compute nodes inside If node 'i' are not on EP"), std::string_view::npos)
      << status.message();
}

TEST(PlacementReport, OnlyTwentyAreNamed) {
  std::vector<NodeReport> nodes;
  for (int i = 0; i < 20; ++i) nodes.push_back(Node(StrCat("n", i), NodeHome::kUnsupported, "r"));
  const std::string twenty(CheckAllComputeNodes(Graph(nodes), "EP").message());
  EXPECT_TRUE(twenty.ends_with("'n19': r")) << twenty;
  nodes.push_back(Node("n20", NodeHome::kUnsupported, "r"));
  nodes.push_back(Node("n21", NodeHome::kUnsupported, "r"));
  const std::string more(CheckAllComputeNodes(Graph(nodes), "EP").message());
  EXPECT_TRUE(more.ends_with("'n19': r\n  and 2 more")) << more;
}

TEST(PlacementReport, Json) {
  PlacementReport report;
  report.Add(Graph({Node("a\"\\\n", NodeHome::kUnsupported, "no")}));
  const lib::LibraryReport library{"cuDNN", true, "/l/libcudnn.so.9", "9.1.0", "wheels"};
  EXPECT_EQ(report.ToJson("EP", "simulated", {&library, 1}),
            "{\"format\": 1, \"provider\": \"EP\", \"version\": \"" CUDAEP_VERSION
            "\", \"backend\": \"simulated\",\n\"libraries\": [\n"
            R"({"name": "cuDNN", "found": true, "path": "/l/libcudnn.so.9", "version": "9.1.0", "status": "wheels"}])"
            ",\n\"graphs\": [\n"
            R"({"name": "g", "parent": "", "nodes": [)"
            "\n"
            R"({"name": "a\"\\\u000a", "first_output": "a\"\\\u000a_out", "op_type": "Add", "domain": "", )"
            R"("since_version": 14, "placement": "unsupported", "reason": "no"}]}]})"
            "\n");
}

TEST(PlacementReport, JsonHasTheBudgetAndWhatIsStated) {
  PlacementReport report;
  NodeReport taken = Node("a");
  taken.cost = NodeCost{.weights = 1, .copies = 2, .outputs = 3, .workspace = 4, .bytes = 10};
  NodeReport first = Node("b", NodeHome::kOverBudget, "costs 5 B");
  first.cost = NodeCost{.bytes = 5, .recorded = true, .unknown = "output 0"};
  report.Add(Graph({taken, first, Node("c", NodeHome::kOverBudget, "after it")}));
  report.SetBudget({.limit_bytes = 12, .is_stated = true, .stats_file = "s.csv", .stated_bytes = 10, .nodes = 1});
  const std::string text = report.ToJson("EP", "simulated", {});
  for (const char* part :
       {R"("budget": {"limit_bytes": 12, "is_stated": true, "stats_file": "s.csv", "stated_bytes": 10, "nodes": 1, )"
        R"("unknown_nodes": 0},)",
        R"("placement": "provider", "reason": "", "cost": {"bytes": 10, "weights": 1, "copies": 2, "outputs": 3, )"
        R"("workspace": 4, "recorded": false, "unknown": ""}})",
        R"("placement": "budget", "reason": "costs 5 B", "cost": {"bytes": 5, "weights": 0, "copies": 0, )"
        R"("outputs": 0, "workspace": 0, "recorded": true, "unknown": "output 0"}})",
        R"("placement": "budget", "reason": "after it"})"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(PlacementReport, NodesBeyondTheBudgetAreElsewhereAndNoWarning) {
  const GraphReport graph = Graph({Node("a"), Node("b", NodeHome::kOverBudget, "costs 5 B")});
  EXPECT_EQ(Warning(graph), "");
  EXPECT_EQ(Summary(graph), "1 of 2 nodes, 0 shape nodes left to the CPU; elsewhere:\n  Add node 'b': costs 5 B");
  EXPECT_EQ(CheckAllComputeNodes(graph, "EP").code(), StatusCode::kNotSupported);
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlacementReport, ALaterAnswerReplacesAnEarlierOneAboutTheSameGraph) {
  PlacementReport report;
  report.Add(Graph({Node("function"), Node("end")}));
  report.Add(Graph({Node("body"), Node("end")}));
  const std::string text = report.ToJson("EP", "", {});
  EXPECT_EQ(Count(text, "\"nodes\""), 1u);
  EXPECT_EQ(Count(text, "\"function\""), 0u);
  EXPECT_EQ(Count(text, "\"body\""), 1u);
}

TEST(PlacementReport, AGraphIsKnownByItsOutputsInWhateverOrderItsNodesAre) {
  const GraphReport first = Graph({Node("stem"), Node("left"), Node("right")}, "", {"y0", "y1"});
  const GraphReport second = Graph({Node("right"), Node("turn"), Node("stem"), Node("left")}, "", {"y0", "y1"});
  EXPECT_EQ(IdentityOf(first), IdentityOf(second));
  EXPECT_NE(IdentityOf(first), IdentityOf(Graph({Node("stem")}, "", {"y0"})));
  EXPECT_NE(IdentityOf(first), IdentityOf(Graph({Node("stem")}, "If node 'i'", {"y0", "y1"})));
  PlacementReport report;
  report.Add(first);
  report.Add(second);
  EXPECT_EQ(Count(report.ToJson("EP", "", {}), "\"turn\""), 1u);
  EXPECT_EQ(Count(report.ToJson("EP", "", {}), "\"nodes\""), 1u);
}

TEST(PlacementReport, BranchesOfOneNameAreKeptApart) {
  PlacementReport report;
  report.Add(Graph({Node("a")}, "If node 'i'", {"then"}));
  report.Add(Graph({Node("a")}, "If node 'i'", {"else"}));
  report.Add(Graph({Node("a")}, "", {"then"}));
  EXPECT_EQ(Count(report.ToJson("EP", "", {}), "\"nodes\""), 3u);
}

TEST(PlacementReport, TheFileIsReplaced) {
  const std::string path = testing::TempDir() + "placement_report_test.json";
  ASSERT_TRUE(WriteReport(path, "a longer text").ok());
  ASSERT_TRUE(WriteReport(path, "text").ok());
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), "text");
  std::remove(path.c_str());
}

TEST(PlacementReport, AFileThatCannotBeWrittenIsNamed) {
  const Status status = WriteReport("/nowhere/report.json", "text");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "provider option placement_report: cannot write /nowhere/report.json: No such file or directory");
}

}  // namespace
}  // namespace cudaep::graph
