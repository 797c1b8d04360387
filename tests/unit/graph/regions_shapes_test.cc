// What nodes of a region read in host memory, and which shape nodes go with them.
#include <gtest/gtest.h>

#include <string>

#include "region_builder.h"

namespace cudaep::graph {
namespace {

using Builder = RegionBuilder;

TEST(Regions, AHostInputMayBeAHostConstant) {
  EXPECT_EQ(Builder().HostConstant("axes").Device({"x", "@axes"}, {"a"}).Find(), (Groups{{"a"}}));
}

TEST(Regions, AHostInputMayNotBeALargeConstant) {
  EXPECT_EQ(Builder().Weight("axes").Device({"x", "@axes"}, {"a"}).Device({"a"}, {"b"}).Find(), (Groups{{"b"}}));
}

TEST(Regions, AHostInputMayNotBeAnInputOfTheGraph) {
  EXPECT_EQ(Builder().Device({"x"}, {"a"}).Device({"a", "@axes"}, {"b"}).Device({"b"}, {"c"}).Find(),
            (Groups{{"a"}, {"c"}}));
}

TEST(Regions, AHostInputMayNotBeMadeOnTheDevice) {
  EXPECT_EQ(Builder().Device({"x"}, {"n"}).Device({"x", "@n"}, {"a"}).Find(), (Groups{{"n"}}));
}

TEST(Regions, AHostInputMayNotBeMadeOutside) {
  EXPECT_EQ(Builder().Outside({"x"}, {"n"}).Device({"x", "@n"}, {"a"}).Device({"a"}, {"b"}).Find(), (Groups{{"b"}}));
}

TEST(Regions, EveryHostInputCounts) {
  EXPECT_EQ(Builder().HostConstant("starts").Device({"x", "@starts", "@ends"}, {"a"}).Device({"a"}, {"b"}).Find(),
            (Groups{{"b"}}));
}

TEST(Regions, AShapeChainGoesWithItsReader) {
  EXPECT_EQ(Builder()
                .HostConstant("zero")
                .HostConstant("tail")
                .ShapeOf({"x"}, {"s"})
                .Shape({"s", "zero"}, {"batch"})
                .Shape({"batch", "tail"}, {"shape"})
                .Device({"x", "@shape"}, {"y"})
                .Find(),
            (Groups{{"s", "batch", "shape", "y"}}));
}

TEST(Regions, AShapeNodeMayReadDimensionsOfAnyValue) {
  for (const char* what : {"x", "w", "u", "a"}) {
    const Groups groups =
        Builder().Weight("w").Outside({"x"}, {"u"}).Device({"x"}, {"a"}).ReshapeLike("a", what, "y").Find();
    EXPECT_EQ(groups, (Groups{{"a", "y_shape", "y"}})) << what;
  }
}

TEST(Regions, AShapeNodeMayReadDimensionsOfAShape) {
  EXPECT_EQ(Builder().ShapeOf({"x"}, {"s"}).ShapeOf({"s"}, {"rank"}).Device({"x", "@rank"}, {"y"}).Find(),
            (Groups{{"s", "rank", "y"}}));
}

TEST(Regions, AShapeNodeMayNotReadOtherValues) {
  for (const char* what : {"x", "w", "u", "a"}) {
    const Groups groups = Builder()
                              .Weight("w")
                              .Outside({"x"}, {"u"})
                              .Device({"x"}, {"a"})
                              .Shape({what}, {"s"})
                              .Device({"a", "@s"}, {"y"})
                              .Find();
    EXPECT_EQ(groups, (Groups{{"a"}})) << what;
  }
}

TEST(Regions, AShapeThatLeavesIsMadeOutside) {
  EXPECT_EQ(Builder().ShapeOf({"x"}, {"s"}).Device({"x", "@s"}, {"a"}).Device({"a"}, {"b"}).Leaves("s").Find(),
            (Groups{{"b"}}));
}

TEST(Regions, AShapeReadOutsideIsMadeThere) {
  EXPECT_EQ(Builder()
                .HostConstant("zero")
                .ShapeOf({"x"}, {"s"})
                .Shape({"s", "zero"}, {"t"})
                .Outside({"x", "s"}, {"u"})
                .Device({"x", "@t"}, {"a"})
                .Device({"a"}, {"b"})
                .Find(),
            (Groups{{"b"}}));
}

// The second output of the Split is read outside; what reads the first goes with it.
TEST(Regions, EveryOutputOfAShapeNodeCounts) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .Shape({"s"}, {"height", "width"})
                .Device({"x", "@height"}, {"a"})
                .Device({"a"}, {"b"})
                .Outside({"width"}, {"u"})
                .Find(),
            (Groups{{"b"}}));
}

TEST(Regions, AShapeReadAsDataGoesWithItsReaders) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .Device({"s"}, {"cast"})
                .Device({"x", "@s"}, {"a"})
                .Device({"a", "cast"}, {"b"})
                .Find(),
            (Groups{{"s", "cast", "a", "b"}}));
}

TEST(Regions, AShapeReadAsDataAloneGoesWithItsReaders) {
  EXPECT_EQ(Builder().ShapeOf({"x"}, {"s"}).Device({"s"}, {"a"}).Device({"a"}, {"b"}).Find(),
            (Groups{{"s", "a", "b"}}));
}

TEST(Regions, AShapeReadAsDataAndInHostMemoryByOneNodeGoesWithIt) {
  EXPECT_EQ(Builder().ShapeOf({"x"}, {"s"}).Device({"s", "@s"}, {"a"}).Device({"a"}, {"b"}).Find(),
            (Groups{{"s", "a", "b"}}));
}

// It is an input of the second group then, which does not have to wait for it there.
TEST(Regions, AShapeThatLeavesMayBeReadAsData) {
  EXPECT_EQ(Builder().ShapeOf({"x"}, {"s"}).Device({"s"}, {"a"}).Device({"a"}, {"b"}).Leaves("s").Find(),
            (Groups{{"a", "b"}}));
}

TEST(Regions, AShapeReadOnBothSidesOfANodeOutsideIsMadeOutside) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .Device({"x", "@s"}, {"a"})
                .Outside({"a"}, {"u"})
                .Device({"u"}, {"b"})
                .Device({"b", "@s"}, {"c"})
                .Find(),
            (Groups{{"b"}}));
}

// The chain has a reader in each of two groups; the chain of the second alone stays.
TEST(Regions, OnlyTheShapesOfBothSidesAreMadeOutside) {
  EXPECT_EQ(Builder()
                .HostConstant("zero")
                .ShapeOf({"x"}, {"s"})
                .Shape({"s", "zero"}, {"t"})
                .Shape({"s", "zero"}, {"r"})
                .Device({"x"}, {"first"})
                .Device({"first", "@t"}, {"a"})
                .Outside({"a"}, {"u"})
                .Device({"u", "@r"}, {"b"})
                .ReshapeLike("b", "x", "c")
                .Device({"c"}, {"d"})
                .Find(),
            (Groups{{"first"}, {"c_shape", "c", "d"}}));
}

// The shape of the graph's input is known long before the node outside ran, and yet belongs to the second group.
TEST(Regions, AShapeOfAnEarlyValueGoesWithALateReader) {
  EXPECT_EQ(
      Builder().Device({"x"}, {"a"}).ReshapeLike("a", "x", "b").Outside({"b"}, {"u"}).ReshapeLike("u", "a", "c").Find(),
      (Groups{{"a", "b_shape", "b"}, {"c_shape", "c"}}));
}

TEST(Regions, WhatLiesBetweenTwoReadersOfAShapeIsWithThem) {
  EXPECT_EQ(Builder()
                .Outside({"x"}, {"u"})
                .ShapeOf({"x"}, {"s"})
                .Device({"x", "@s"}, {"a"})
                .Device({"a"}, {"b"})
                .Device({"b", "u"}, {"c"})
                .Device({"c", "@s"}, {"d"})
                .Find(),
            (Groups{{"s", "a", "b", "c", "d"}}));
}

// s needs {a1, a2} in one group and t {b1, b2}; a1 -> u -> b1 and b2 -> a2 allow one of the two, and s has more
// readers.
TEST(Regions, OfTwoShapesThatPreventEachOtherTheOneWithFewerReadersGoes) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .ShapeOf({"y"}, {"t"})
                .Device({"x", "@s"}, {"a1"})
                .Outside({"a1"}, {"u"})
                .Device({"u", "@t"}, {"b1"})
                .Device({"y", "@t"}, {"b2"})
                .Device({"b2", "@s"}, {"a2"})
                .Device({"a2", "@s"}, {"a3"})
                .Find(),
            (Groups{{"s", "a1", "a2", "a3"}}));
}

// One shape node given up puts a node outside in the way of the next one.
TEST(Regions, GivingUpOneShapeMayCostOthers) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .Device({"x", "@s"}, {"a"})
                .Outside({"a"}, {"u"})
                .ShapeOf({"x"}, {"t"})
                .Device({"u", "@t"}, {"b"})
                .Device({"b", "@s"}, {"c"})
                .Device({"c", "@t"}, {"d"})
                .Device({"d"}, {"e"})
                .Find(),
            (Groups{{"e"}}));
}

// s (2 readers) and t (4) prevent each other, and so do p (3) and q (4): s and p go. Without p, c1 stands between
// readers of t, which goes too; nothing prevents s then, nor w, which had a1 between its readers. g comes before o,
// which comes before the group of s.
TEST(Regions, WhatOnlyOthersPreventedComesBack) {
  EXPECT_EQ(Builder()
                .ShapeOf({"x"}, {"s"})
                .ShapeOf({"x"}, {"t"})
                .ShapeOf({"x"}, {"p"})
                .ShapeOf({"x"}, {"q"})
                .ShapeOf({"x"}, {"w"})
                .Device({"x", "@w"}, {"e1"})
                .Device({"h"}, {"g"})
                .Outside({"g"}, {"o"})
                .Device({"e1", "g", "@s"}, {"a1"})
                .Device({"a1", "@w"}, {"e2"})
                .Device({"e2", "@w"}, {"e3"})
                .Device({"e3", "@w"}, {"e4"})
                .Device({"e4", "@w"}, {"e5"})
                .Outside({"a1"}, {"u"})
                .Device({"u", "@t"}, {"b1"})
                .Device({"y", "@t"}, {"b2"})
                .Device({"b2", "o", "@s"}, {"a2"})
                .Device({"b2", "@p"}, {"c1"})
                .Device({"c1", "@t"}, {"b3"})
                .Device({"b3", "@t"}, {"b4"})
                .Outside({"c1"}, {"v"})
                .Device({"v", "@q"}, {"d1"})
                .Device({"z", "@q"}, {"d2"})
                .Device({"d2", "@p"}, {"c2"})
                .Device({"c2", "@p"}, {"c3"})
                .Device({"d2", "@q"}, {"d3"})
                .Device({"d3", "@q"}, {"d4"})
                .Find(),
            (Groups{{"s", "w", "e1", "a1", "e2", "e3", "e4", "e5", "a2"}, {"q", "d1", "d2", "d3", "d4"}, {"g"}}));
}

}  // namespace
}  // namespace cudaep::graph
