// Queries, keys and values by products with weights of few bits: one product, or what keeps them apart.
#include <gtest/gtest.h>

#include <cstring>

#include "nbits_net.h"

namespace cudaep::graph {
namespace {

// 4 heads of 16 columns, 2 of keys and values.
constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 16;

struct ProjectedNet : NBitsNet {
  explicit ProjectedNet(const Weights& q = {}, const Weights& k = {}, const Weights& v = {})
      : NBitsNet(DataType::kFloat16), x(Input("x", {kBatch, kRows, {kInner}})) {
    const auto columns = [](Weights of, int64_t heads) {
      if (of.columns == kColumns) of.columns = heads * kSize;
      return of;
    };
    parts = {Product(x, columns(q, kHeads)), Product(x, columns(k, kKvHeads)), Product(x, columns(v, kKvHeads))};
  }

  int Attend(ops::Attributes attributes = {{"num_heads", kHeads}, {"kv_num_heads", kKvHeads}}) {
    const auto lengths = [&](const char* name, std::vector<ir::Dim> dims) {
      const int value = Input(name, std::move(dims));
      graph.value(value).type = DataType::kInt32;
      return value;
    };
    std::vector<int> inputs = parts;
    inputs.insert(inputs.end(), {-1, -1, lengths("keys", {kBatch}), lengths("total", {{1}})});
    return Microsoft("GroupQueryAttention", std::move(inputs), std::move(attributes));
  }
  std::string Missing(ops::Attributes attributes = {{"num_heads", kHeads}, {"kv_num_heads", kKvHeads}}) {
    Output(Attend(std::move(attributes)));
    const std::string missed = Missed(Run());
    EXPECT_EQ(Count(*this, "MatMulNBits"), missed.empty() ? 1 : 3);
    return missed;
  }

  int x;
  std::vector<int> parts;
};

TEST(NBitsProjectionsTest, ThreeProductsAreOne) {
  for (const bool zeros : {false, true}) {
    for (const bool bias : {false, true}) {
      const Weights form{.zeros = zeros, .bias = bias};
      ProjectedNet net(form, form, form);
      std::vector<std::vector<uint8_t>> wanted;  // of each input, the constants of all parts
      for (const size_t input : {1, 2, 3, 5}) {
        std::vector<uint8_t>& bytes = wanted.emplace_back();
        for (int n = 0; n < 3; ++n) {
          if (net.node(n).inputs[input] < 0) continue;
          const auto& constant = net.graph.value(net.node(n).inputs[input]).constant;
          const auto* const data = static_cast<const uint8_t*>(constant.data);
          bytes.insert(bytes.end(), data, data + constant.bytes());
        }
      }
      net.Output(net.Attend());
      const auto notes = net.Run();
      ASSERT_EQ(net.Operators(), (Ops{"MatMulNBits", "GroupQueryAttention"}));
      const ir::Node &product = net.node(0), &attention = net.node(1);
      EXPECT_EQ(product.inputs[0], net.x);
      EXPECT_EQ(std::get<int64_t>(product.attributes.at("N")), (kHeads + 2 * kKvHeads) * kSize);
      EXPECT_EQ(attention.inputs[0], product.outputs[0]);
      EXPECT_EQ(attention.inputs[1], -1);
      EXPECT_EQ(attention.inputs[2], -1);
      EXPECT_EQ(attention.outputs, net.graph.outputs);
      EXPECT_EQ(net.graph.value(product.outputs[0]).dims->back().size, (kHeads + 2 * kKvHeads) * kSize);
      size_t at = 0;
      for (const size_t input : {1, 2, 3, 5}) {
        const std::vector<uint8_t>& bytes = wanted[at++];
        ASSERT_EQ(product.inputs[input] >= 0, !bytes.empty());
        if (bytes.empty()) continue;
        const auto& constant = net.graph.value(product.inputs[input]).constant;
        ASSERT_EQ(constant.bytes(), bytes.size());
        EXPECT_EQ(std::memcmp(constant.data, bytes.data(), bytes.size()), 0);
      }
      ASSERT_FALSE(notes.empty());
      EXPECT_EQ(Describe(notes.back()),
                "fusion projections: MatMulNBits + MatMulNBits + MatMulNBits + GroupQueryAttention");
    }
  }
}

TEST(NBitsProjectionsTest, ProductsOfTwoFormsStayApart) {
  const char* const kForms = "its products' weights have two forms";
  EXPECT_EQ(ProjectedNet({.bits = 8}).Missing(), kForms);
  EXPECT_EQ(ProjectedNet({}, {.bits = 8}).Missing(), kForms);
  EXPECT_EQ(ProjectedNet({}, {}, {.block = 32}).Missing(), kForms);
  const char* const kOne = "only one of its products has zero points or a bias";
  EXPECT_EQ(ProjectedNet({.zeros = true}).Missing(), kOne);
  EXPECT_EQ(ProjectedNet({}, {}, {.bias = true}).Missing(), kOne);
  const Weights floats{.zeros = true, .zeros_type = DataType::kFloat16};
  EXPECT_EQ(ProjectedNet(floats, {.zeros = true}, floats).Missing(), kForms);
  EXPECT_EQ(ProjectedNet(floats, floats, floats).Missing(), "");
}

TEST(NBitsProjectionsTest, WhatIsNoConstantOrHasGroupsStays) {
  EXPECT_EQ(ProjectedNet({.constant = false}).Missing(), "its weights are no constants");
  EXPECT_EQ(ProjectedNet({}, {}, {.constant = false}).Missing(), "its weights are no constants");
  EXPECT_EQ(ProjectedNet({}, {.groups = true}).Missing(), "a product of it has groups of weights");
}

TEST(NBitsProjectionsTest, HeadsOfTwoSizesStay) {
  const char* const kSizes = "its heads are not known to have one size";
  EXPECT_EQ(ProjectedNet({}, {.columns = 2 * kSize + 2}).Missing(), kSizes);
  EXPECT_EQ(ProjectedNet({}, {}, {.columns = 3 * kSize}).Missing(), kSizes);
  EXPECT_EQ(ProjectedNet().Missing({}), kSizes);
}

TEST(NBitsProjectionsTest, ProductsOfTwoTensorsStay) {
  ProjectedNet net;
  net.graph.nodes[1].inputs[0] = net.Input("z", {kBatch, kRows, {kInner}});
  EXPECT_EQ(net.Missing(), "its products are of two tensors");
}

TEST(NBitsProjectionsTest, WhatOthersReadStays) {
  for (const size_t part : {0, 1, 2}) {
    ProjectedNet net;
    net.Output(net.parts[part]);
    EXPECT_EQ(net.Missing(), "others read one of its products");
  }
}

TEST(NBitsProjectionsTest, IsLeftOutByName) {
  ProjectedNet net;
  net.Output(net.Attend());
  net.Run(Without({Fusion::kProjections}));
  EXPECT_EQ(Count(net, "MatMulNBits"), 3);
}

}  // namespace
}  // namespace cudaep::graph
