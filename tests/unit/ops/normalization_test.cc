// Normalisations of tensors beyond the L2 cache, cut into parts: the same result, however they are cut.
#include "ops/norm/normalization.h"

#include <gtest/gtest.h>

#include "../lib/device_fixture.h"
#include "device/device_info.h"

namespace cudaep::ops {
namespace {

class NormalizationTest : public DeviceTest {
 protected:
  // Normalises dims [samples, groups, channels of a group, elements] over the last two, given a cache of `l2_bytes`,
  // and returns how many launches the plan has. Without `swish` rows are segments, on a device of many multiprocessors.
  int64_t Check(Dims dims, size_t l2_bytes, bool swish = true) {
    device::DeviceInfo device = *device::GetDeviceInfo(0).value();
    device.l2_bytes = l2_bytes;
    if (!swish) device.multiprocessors = 132;
    const Normalization norm(
        {.type = DataType::kFloat, .affine_type = DataType::kFloat, .epsilon = 1e-5, .swish = swish});
    NormView view{.dims = Shape(dims), .reduced = DimFlags(4, true), .affine = {1, dims[1], dims[2], 1}};
    view.reduced[0] = view.reduced[1] = false;

    const int64_t elems = ElementCount(dims), channels = dims[1] * dims[2], row = dims[2] * dims[3];
    const auto x = TestValues(elems, 1), scale = TestValues(channels, 2), bias = TestValues(channels, 3);
    const TensorView input{.data = Upload(DataType::kFloat, x),
                           .dim = dims.data(),
                           .rank = static_cast<int32_t>(dims.size()),
                           .type = DataType::kFloat};
    StreamContext runtime(0, stream());
    const Shape output(dims);
    auto made =
        norm.MakePlan(view, {.inputs = {&input, 1}, .outputs = {&output, 1}, .runtime = runtime, .device = device});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    const auto& plan = PlanAs<NormalizationPlan>(**made);
    EXPECT_FALSE(plan.by_rows);
    EXPECT_EQ(plan.segments.has_value(), !swish);
    void* y = Upload(DataType::kFloat, std::vector<double>(static_cast<size_t>(elems), 7.0));
    const OpContext context{.inputs = {&input, 1},
                            .outputs = &y,
                            .workspace = runtime.workspace().Reserve(plan.workspace_bytes).value(),
                            .runtime = runtime};
    EXPECT_TRUE(norm.Enqueue(plan, context, Upload(DataType::kFloat, scale), Upload(DataType::kFloat, bias)).ok());

    std::vector<double> wanted;
    for (int64_t first = 0; first < elems; first += row) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < row; ++i) mean += x[static_cast<size_t>(first + i)] / static_cast<double>(row);
      for (int64_t i = 0; i < row; ++i) {
        const double deviation = x[static_cast<size_t>(first + i)] - mean;
        variance += deviation * deviation / static_cast<double>(row);
      }
      for (int64_t i = 0; i < row; ++i) {
        const auto channel = static_cast<size_t>((first + i) / dims[3] % channels);
        const double v =
            (x[static_cast<size_t>(first + i)] - mean) / std::sqrt(variance + 1e-5) * scale[channel] + bias[channel];
        wanted.push_back(swish ? v / (1 + std::exp(-v)) : v);
      }
    }
    ExpectNear(DataType::kFloat, Download(DataType::kFloat, y, elems), wanted);
    return plan.outer * CeilDiv(plan.size, plan.chunk);
  }
};

TEST_F(NormalizationTest, PartsThatTheCacheHoldsGiveTheSameResult) {
  const int64_t dims[] = {3, 5, 2, 100};  // groups of 800 bytes
  EXPECT_EQ(Check(dims, size_t{1} << 20), 1);
  EXPECT_EQ(Check(dims, 2 * 8000), 2);      // two samples, one sample
  EXPECT_EQ(Check(dims, 2 * 4000), 3);      // a sample each
  EXPECT_EQ(Check(dims, 2 * 1700), 3 * 3);  // two groups, two, one
  EXPECT_EQ(Check(dims, 1), 1);             // not even a group: nothing is gained by cutting
}

TEST_F(NormalizationTest, FewLongGroupsAreRowsOfSegments) {
  Check(std::array<int64_t, 4>{2, 2, 3, 50'004}, size_t{1} << 20, false);
  Check(std::array<int64_t, 4>{1, 3, 1, 140'000}, size_t{1} << 20, false);
}

}  // namespace
}  // namespace cudaep::ops
