// Which nodes are grouped, and which groups would wait for each other.
#include <gtest/gtest.h>

#include <string>

#include "region_builder.h"

namespace cudaep::graph {
namespace {

using Builder = RegionBuilder;

TEST(Regions, AnEmptyGraphHasNone) { EXPECT_EQ(Builder().Find(), Groups{}); }

TEST(Regions, NodesOutsideAreInNone) {
  EXPECT_EQ(Builder().Outside({"x"}, {"y"}).Outside({"y"}, {"z"}).Find(), Groups{});
}

TEST(Regions, AChainIsOne) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Device({"a"}, {"b"}).Device({"b"}, {"c"}).Find(), (Groups{{"a", "b", "c"}}));
}

TEST(Regions, ACnnIsOne) {
  Builder cnn;
  std::string last = "image";
  Names all;
  for (int block = 0; block < 4; ++block) {
    const std::string name = "block" + std::to_string(block);
    cnn.Weight(name + "_w").Weight(name + "_v");
    cnn.Device({last, name + "_w"}, {name + "_conv"}).Device({name + "_conv"}, {name + "_relu"});
    cnn.Device({name + "_relu", name + "_v"}, {name + "_conv2"}).Device({name + "_conv2", last}, {name + "_add"});
    for (const char* part : {"_conv", "_relu", "_conv2", "_add"}) all.push_back(name + part);
    last = name + "_add";
  }
  EXPECT_EQ(cnn.Leaves(last).Find(), (Groups{all}));
}

// Batch and length are read once, at the front, and used in every layer; a mask comes in from the side.
TEST(Regions, AnEncoderWithItsShapesIsOne) {
  Builder encoder;
  encoder.HostConstant("zero").HostConstant("heads").Weight("table");
  encoder.ShapeOf({"ids"}, {"ids_shape"}).Shape({"ids_shape", "zero"}, {"batch"});
  encoder.Device({"mask"}, {"mask_cast"}).ReshapeLike("mask_cast", "ids", "mask4");
  encoder.Device({"table", "ids"}, {"hidden0"});
  size_t nodes = 6;
  for (int layer = 0; layer < 3; ++layer) {
    const std::string at = std::to_string(layer);
    encoder.Shape({"batch", "heads"}, {"shape" + at});
    encoder.Device({"hidden" + at}, {"qkv" + at}).Device({"qkv" + at, "@shape" + at}, {"split" + at});
    encoder.Device({"split" + at, "mask4"}, {"attention" + at});
    encoder.ReshapeLike("attention" + at, "hidden" + at, "merged" + at);
    encoder.Device({"merged" + at, "hidden" + at}, {"hidden" + std::to_string(layer + 1)});
    nodes += 7;
  }
  const Groups groups = encoder.Leaves("hidden3").Find();
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].size(), nodes);
}

TEST(Regions, ANodeOutsideSplitsAChain) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Outside({"a"}, {"u"}).Device({"u"}, {"b"}).Device({"b"}, {"c"}).Find(),
            (Groups{{"a"}, {"b", "c"}}));
}

TEST(Regions, NoPathLeavesAGroupAndComesBack) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Outside({"a"}, {"u"}).Device({"a", "u"}, {"b"}).Find(),
            (Groups{{"a"}, {"b"}}));
}

TEST(Regions, APathBesideANodeOutsideGoesAsFarAsItCan) {
  EXPECT_EQ(Builder()
                .Device({"x"}, {"a"})
                .Outside({"a"}, {"u"})
                .Device({"a"}, {"b"})
                .Device({"b"}, {"c"})
                .Device({"c", "u"}, {"d"})
                .Device({"d"}, {"e"})
                .Find(),
            (Groups{{"a", "b", "c"}, {"d", "e"}}));
}

// {a1, a2} and {b1, b2} are convex, but each would wait for the other.
TEST(Regions, TwoGroupsDoNotWaitForEachOther) {
  EXPECT_EQ(Builder()
                .Device({"x"}, {"a1"})
                .Device({"y"}, {"b1"})
                .Outside({"a1"}, {"u"})
                .Outside({"b1"}, {"v"})
                .Device({"a1", "v"}, {"a2"})
                .Device({"b1", "u"}, {"b2"})
                .Find(),
            (Groups{{"a1", "a2"}, {"b1"}, {"b2"}}));
}

TEST(Regions, ThreeGroupsDoNotWaitForEachOtherInARing) {
  Builder ring;
  for (const char* name : {"a", "b", "c"}) ring.Device({std::string("x") + name}, {std::string(name) + "1"});
  for (const char* name : {"a", "b", "c"}) ring.Outside({std::string(name) + "1"}, {std::string(name) + "3"});
  ring.Device({"a1", "c3"}, {"a2"}).Device({"b1", "a3"}, {"b2"}).Device({"c1", "b3"}, {"c2"});
  EXPECT_EQ(ring.Find(), (Groups{{"a1", "a2"}, {"b1", "b2"}, {"c1"}, {"c2"}}));
}

TEST(Regions, ABranchThatWaitsForNobodyJoinsItsReader) {
  EXPECT_EQ(Builder()
                .Device({"x"}, {"a"})
                .Outside({"a"}, {"u"})
                .Device({"mask"}, {"m"})
                .Device({"m"}, {"n"})
                .Device({"u", "n"}, {"b"})
                .Find(),
            (Groups{{"a"}, {"m", "n", "b"}}));
}

// m joins the group of b although a node outside reads it, for that node is in nobody's way.
TEST(Regions, AGroupMayHaveReadersOutsideThatComeToNothing) {
  EXPECT_EQ(Builder()
                .Device({"x"}, {"a"})
                .Outside({"a"}, {"u"})
                .Device({"mask"}, {"m"})
                .Outside({"m"}, {"v"})
                .Device({"v"}, {"w"})
                .Device({"u", "m"}, {"b"})
                .Find(),
            (Groups{{"a"}, {"m", "b"}, {"w"}}));
}

TEST(Regions, SiblingsJoin) {
  Builder heads;
  heads.Outside({"x"}, {"u"});
  for (const char* name : {"q", "k", "v"}) {
    heads.Weight(std::string("w") + name).Device({"u", std::string("w") + name}, {name});
    heads.Outside({name}, {std::string(name) + "_out"});
  }
  EXPECT_EQ(heads.Find(), (Groups{{"q", "k", "v"}}));
}

TEST(Regions, SiblingsDoNotJoinAroundANodeOutside) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Outside({"a"}, {"u"}).Device({"x", "u"}, {"b"}).Find(),
            (Groups{{"a"}, {"b"}}));
}

TEST(Regions, ASharedWeightMakesNoSiblings) {
  EXPECT_EQ(Builder().Weight("w").Device({"x", "w"}, {"a"}).Device({"y", "w"}, {"b"}).Find(), (Groups{{"a"}, {"b"}}));
}

TEST(Regions, ASharedShapeMakesNoSiblings) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).ReshapeLike("y", "x", "b").Find(), (Groups{{"a"}, {"b_shape", "b"}}));
}

TEST(Regions, WhatNothingConnectsIsApart) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Device({"y"}, {"b"}).Device({"a"}, {"c"}).Device({"b"}, {"d"}).Find(),
            (Groups{{"a", "c"}, {"b", "d"}}));
}

TEST(Regions, AnInnerValueMayBeAnOutputOfTheGraph) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Device({"a"}, {"b"}).Leaves("a").Leaves("b").Find(), (Groups{{"a", "b"}}));
}

TEST(Regions, AbsentInputsAndOutputsAreNobodys) {
  EXPECT_EQ(Builder().Device({"x", "", "@"}, {"a", ""}).Device({"", "a"}, {"b"}).Find(), (Groups{{"a", "b"}}));
}

TEST(Regions, SmallGroupsAreGivenUp) {
  Builder graph;
  graph.HostConstant("zero").ShapeOf({"x"}, {"s"}).Shape({"s", "zero"}, {"t"}).Device({"x", "@t"}, {"a"});
  graph.Outside({"a"}, {"u"}).Device({"u"}, {"b"}).Device({"b"}, {"c"});
  EXPECT_EQ(graph.Find(1), (Groups{{"s", "t", "a"}, {"b", "c"}}));
  EXPECT_EQ(graph.Find(2), (Groups{{"b", "c"}}));
  EXPECT_EQ(graph.Find(3), Groups{});
}

TEST(Regions, ShapeNodesAloneAreNoGroup) {
  EXPECT_EQ(Builder().HostConstant("zero").ShapeOf({"x"}, {"s"}).Shape({"s", "zero"}, {"t"}).Find(), Groups{});
}

}  // namespace
}  // namespace cudaep::graph
