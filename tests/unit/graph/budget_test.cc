#include "graph/budget.h"

#include <gtest/gtest.h>

#include <random>

#include "core/strings.h"

namespace cudaep::graph {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(BudgetSetting, LimitAndFileMayBeLeftOut) {
  struct Case {
    const char* text;
    std::optional<uint64_t> limit;
    const char* file;
  };
  for (const Case& c :
       {Case{"0,", 0, ""}, Case{"1,", 1024, ""}, Case{",", {}, ""}, Case{",a.csv", {}, "a.csv"},
        Case{"5000,a b.csv", 5000 * 1024, "a b.csv"}, Case{"18014398509481983,", 18014398509481983u * 1024, ""}}) {
    const auto setting = ParseBudgetSetting(c.text);
    ASSERT_TRUE(setting.ok()) << c.text << setting.status().ToString();
    EXPECT_EQ(setting.value().limit_bytes, c.limit) << c.text;
    EXPECT_EQ(setting.value().stats_file, c.file) << c.text;
  }
}

TEST(BudgetSetting, AnythingElseIsRefusedWithKeyAndChoices) {
  for (const char* text : {"", "5000", "x,", "-5,", "+5,", " 5,", "5 ,", "1e3,", "5,a,b", "5000.0,a",
                           "18014398509481984,", "99999999999999999999999,"}) {
    const Status status = ParseBudgetSetting(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    const std::string message(status.message());
    EXPECT_NE(message.find(StrCat("session.resource_cuda_partitioning_settings='", text, "'")), std::string::npos);
    EXPECT_NE(message.find("'KB,FILE'"), std::string::npos) << message;
  }
}

TEST(NodeStats, NamesLoseTheHostsHash) {
  const auto stats = NodeStats::Parse(
      "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\n"
      "conv_1_8746788673890047535,1,20,300,4000\r\n"
      "\n"
      "Relu_1,5,0,0,0\nRelu_2,7,0,0,0\n"
      "a,b_3,1,1,1,1\n"
      "plain,2,2,2,2\n",
      "s.csv");
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_EQ(stats.value().Find("conv_1"), 4321);
  EXPECT_EQ(stats.value().Find("Relu"), 7);  // the largest of several
  EXPECT_EQ(stats.value().Find("a,b"), 4);
  EXPECT_EQ(stats.value().Find("plain"), 8);
  EXPECT_EQ(stats.value().Find("conv"), std::nullopt);
  EXPECT_EQ(stats.value().Find(""), std::nullopt);
}

TEST(NodeStats, AMalformedLineIsNamed) {
  for (const char* line : {"garbage", "a,1,2,3", "a,1,x,2,3", "a,1,2,3,-4", "a,1,2,3,"}) {
    const Status status = NodeStats::Parse(StrCat("# h\n", line, "\n"), "s.csv").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
    EXPECT_NE(status.message().find("line 2 of the stats file s.csv"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(kBudgetKey), std::string::npos);
  }
}

NodeDemand Weight(const std::string& name, uint64_t bytes, uint64_t outputs = 0) {
  return {.weights = {{name, bytes}}, .outputs = outputs};
}

// What nodes cost on their own account, without a limit that matters.
NodeCost Taken(BudgetAccount& account, const NodeDemand& demand) {
  NodeCost cost;
  EXPECT_TRUE(account.Take(demand, &cost));
  return cost;
}

TEST(BudgetAccount, ASharedWeightCountsOnce) {
  BudgetAccount account(100 * kMiB, true);
  EXPECT_EQ(Taken(account, Weight("w", 10, 3)).bytes, 13u);
  EXPECT_EQ(Taken(account, Weight("w", 10, 3)).bytes, 3u);
  NodeDemand twice = Weight("v", 5);
  twice.weights.push_back({"v", 5});  // one node, both inputs
  EXPECT_EQ(Taken(account, twice).bytes, 5u);
  EXPECT_EQ(account.stated_bytes(), 21u);
  EXPECT_EQ(account.nodes(), 3u);
}

TEST(BudgetAccount, ACopyCountsOnce) {
  BudgetAccount account(100 * kMiB, true);
  EXPECT_EQ(Taken(account, {.copies = {{"x", 10}}}).copies, 10u);
  EXPECT_EQ(Taken(account, {.copies = {{"x", 10}, {"y", 1}}}).bytes, 1u);
}

TEST(BudgetAccount, WorkspaceCountsAsFarAsItGrows) {
  BudgetAccount exact(100 * kMiB, true);
  EXPECT_EQ(Taken(exact, {.workspace = 3 * kMiB}).bytes, 3 * kMiB);
  EXPECT_EQ(Taken(exact, {.workspace = 2 * kMiB}).bytes, 0u);
  EXPECT_EQ(Taken(exact, {.workspace = 4 * kMiB}).bytes, 4 * kMiB);  // beside the block that is outgrown
  BudgetAccount generous(100 * kMiB, false);
  EXPECT_EQ(Taken(generous, {.workspace = 1}).bytes, 1 * kMiB);
  EXPECT_EQ(Taken(generous, {.workspace = kMiB + 1}).bytes, 2 * kMiB);
}

TEST(BudgetAccount, OnlyTheLargestWeightIsInTwoForms) {
  BudgetAccount account(100 * kMiB, true);
  EXPECT_EQ(Taken(account, {.packing = 10}).bytes, 10u);
  EXPECT_EQ(Taken(account, {.packing = 8}).bytes, 0u);
  EXPECT_EQ(Taken(account, {.packing = 15}).bytes, 5u);
}

TEST(BudgetAccount, ARecordedCostGoesBeforeTheEstimate) {
  BudgetAccount account(100 * kMiB, true);
  NodeDemand demand = Weight("w", 10, 3);
  demand.unknown = "something";
  demand.recorded = 50;
  const NodeCost first = Taken(account, demand);
  EXPECT_EQ(first.bytes, 50u);
  EXPECT_TRUE(first.recorded);
  EXPECT_EQ(first.unknown, "");
  EXPECT_EQ(Taken(account, demand).bytes, 40u);  // its weight is there already
  demand.recorded = 4;
  EXPECT_EQ(Taken(account, demand).bytes, 0u);
  EXPECT_EQ(account.unknown_nodes(), 0u);
}

TEST(BudgetAccount, NothingFollowsTheFirstThatDoesNotFit) {
  BudgetAccount account(10, true);
  NodeCost cost;
  EXPECT_TRUE(account.Take({.outputs = 10}, &cost));
  EXPECT_TRUE(account.Take({}, &cost));  // free
  EXPECT_FALSE(account.ended());
  EXPECT_FALSE(account.Take({.outputs = 1}, &cost));
  EXPECT_EQ(cost.bytes, 1u);
  EXPECT_TRUE(account.ended());
  EXPECT_FALSE(account.Take({}, &cost));
  EXPECT_EQ(account.stated_bytes(), 10u);
  EXPECT_EQ(account.nodes(), 2u);
}

TEST(BudgetAccount, WhatFitsIsWhatWouldBeTaken) {
  BudgetAccount account(100, true);
  NodeCost cost;
  EXPECT_TRUE(account.Fits({.outputs = 100}));
  EXPECT_FALSE(account.Fits({.outputs = 101}));
  EXPECT_FALSE(account.ended());  // asking is no end
  EXPECT_TRUE(account.Take(Weight("w", 60), &cost));
  EXPECT_TRUE(account.Fits(Weight("w", 60, 40)));
  EXPECT_FALSE(account.Fits(Weight("v", 60)));
  EXPECT_FALSE(account.Take(Weight("v", 60), &cost));
  EXPECT_FALSE(account.Fits({}));
  EXPECT_FALSE(BudgetAccount(0, true).Fits({}));
}

// One and a half times weights and outputs, without copies and workspace.
TEST(BudgetAccount, WhatTheHostDropsIsNotTaken) {
  for (const bool host_counts : {false, true}) {
    BudgetAccount account(100, true, host_counts);
    NodeCost cost;
    EXPECT_TRUE(
        account.Take({.weights = {{"w", 20}}, .copies = {{"x", 10}}, .outputs = 15, .in_host_memory = 5}, &cost));
    EXPECT_EQ(cost.bytes, 45u);
    EXPECT_EQ(HostBytesOf(cost), 60u);
    EXPECT_EQ(account.host_left_bytes(), 40u);
    EXPECT_TRUE(account.Fits(Weight("w", 20, 26)));  // there already
    EXPECT_TRUE(account.Fits(Weight("v", 20, 7)));
    EXPECT_EQ(account.Fits(Weight("v", 20, 8)), !host_counts);
    EXPECT_EQ(account.Take(Weight("v", 28), &cost), !host_counts);
    EXPECT_EQ(account.ended(), host_counts);
  }
}

TEST(BudgetAccount, ABudgetOfNothingTakesNothing) {
  BudgetAccount account(0, true);
  NodeCost cost;
  EXPECT_FALSE(account.Take({}, &cost));
}

TEST(BudgetAccount, CostsThatDoNotFit64BitsDoNotFitTheBudget) {
  BudgetAccount account(UINT64_MAX - 1, true);
  NodeCost cost;
  EXPECT_FALSE(account.Take({.weights = {{"a", UINT64_MAX}, {"b", UINT64_MAX}}, .outputs = UINT64_MAX}, &cost));
}

TEST(BudgetAccount, UnknownCostsAreCounted) {
  BudgetAccount account(10, true);
  EXPECT_EQ(Taken(account, {.outputs = 4, .unknown = "output 0"}).unknown, "output 0");
  Taken(account, {});
  EXPECT_EQ(account.unknown_nodes(), 1u);
  EXPECT_EQ(account.nodes(), 2u);
}

TEST(BudgetAccount, AGraphThatIsAskedForAgainStartsAnew) {
  BudgetAccount account(100, true);
  NodeCost cost;
  account.BeginGraph("inner");
  EXPECT_TRUE(account.Take(Weight("w", 30), &cost));
  account.BeginGraph("main");
  EXPECT_TRUE(account.Take(Weight("w", 30, 20), &cost));
  EXPECT_FALSE(account.Take({.outputs = 60}, &cost));
  account.BeginGraph("main");
  EXPECT_FALSE(account.ended());
  EXPECT_EQ(account.stated_bytes(), 30u);
  EXPECT_TRUE(account.Take(Weight("w", 30, 5), &cost));
  EXPECT_EQ(cost.bytes, 5u);
  account.BeginGraph("inner");  // and what came after it is forgotten
  EXPECT_EQ(account.stated_bytes(), 0u);
  EXPECT_TRUE(account.Take(Weight("w", 30), &cost));
  EXPECT_EQ(cost.bytes, 30u);
}

TEST(BudgetAccount, WhatTheHostDoesNotTakeBackIsCharged) {
  BudgetAccount account(10, true);
  NodeCost cost;
  account.Keep({.outputs = 30}, &cost);
  EXPECT_EQ(account.stated_bytes(), 30u);
  EXPECT_EQ(account.left_bytes(), 0u);
  EXPECT_FALSE(account.Take({.outputs = 1}, &cost));
}

// Over random graphs: more budget never takes fewer nodes, and what is stated stays within it.
TEST(BudgetAccount, MoreBudgetNeverTakesFewerNodes) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](uint32_t below) { return random() % below; };
    std::vector<NodeDemand> nodes(1 + draw(30));
    for (NodeDemand& node : nodes) {
      for (uint32_t i = draw(3); i > 0; --i) node.weights.push_back({StrCat("w", draw(8)), 1 + draw(4) * kMiB});
      node.outputs = draw(3) * kMiB;
      node.workspace = draw(4) * kMiB;
      if (draw(4) == 0) node.recorded = draw(6) * kMiB;
    }
    size_t before = 0;
    for (uint64_t budget = 0; budget <= 64 * kMiB; budget += kMiB / 2) {
      BudgetAccount account(budget, seed % 2 == 0);
      NodeCost cost;
      uint64_t sum = 0;
      for (const NodeDemand& node : nodes) sum += account.Take(node, &cost) ? cost.bytes : 0;
      ASSERT_EQ(sum, account.stated_bytes());
      ASSERT_LE(sum, budget) << "seed " << seed;
      ASSERT_GE(account.nodes(), before) << "seed " << seed << " budget " << budget;
      before = account.nodes();
    }
  }
}

}  // namespace
}  // namespace cudaep::graph
