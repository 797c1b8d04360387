// Memory-bound operators against the device's own copy, in one process: operators_bench [--json FILE] [--small]
//
// Each operator runs through its four steps as in a session. A figure is the operator's useful bytes (inputs read once,
// outputs written once) over its median time, as a share of what a device-to-device copy moves in the same run.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "measure.h"
#include "node.h"
#include "ops/planned_operator.h"

namespace cudaep::bench {
namespace {

using test::Attribute;

struct Case {
  std::string name;
  std::string op;
  int version;
  DataType type;
  std::vector<std::vector<int64_t>> inputs;
  std::map<std::string, Attribute> attributes = {};
};

std::vector<Case> Cases(bool small) {
  const int64_t shrink = small ? 64 : 1;
  const int64_t m = (int64_t{64} << 20) / shrink;
  const auto f16 = DataType::kFloat16;
  const auto f32 = DataType::kFloat;
  return {
      {"Add fp16 64Mi", "Add", 14, f16, {{m}, {m}}},
      {"Add fp32 64Mi", "Add", 14, f32, {{m}, {m}}},
      {"Add fp16 64Mi + row bias", "Add", 14, f16, {{m / 4096, 4096}, {4096}}},
      {"Sigmoid fp16 64Mi", "Sigmoid", 13, f16, {{m}}},
      {"Relu fp16 64Mi", "Relu", 14, f16, {{m}}},
      {"Softmax fp16 16384x4096", "Softmax", 13, f16, {{16384 / shrink, 4096}}, {{"axis", int64_t{-1}}}},
      {"Softmax fp16 1024x131072", "Softmax", 13, f16, {{1024 / shrink, 131072}}, {{"axis", int64_t{-1}}}},
      {"Softmax fp32 65536x1024", "Softmax", 13, f32, {{65536 / shrink, 1024}}, {{"axis", int64_t{-1}}}},
      {"LayerNorm fp16 16384x4096", "LayerNormalization", 17, f16, {{16384 / shrink, 4096}, {4096}, {4096}}},
      {"LayerNorm fp16 1024x131072", "LayerNormalization", 17, f16, {{1024 / shrink, 131072}, {131072}, {131072}}},
      {"LayerNorm fp32 65536x1024", "LayerNormalization", 17, f32, {{65536 / shrink, 1024}, {1024}, {1024}}},
      {"Transpose fp16 8192x8192", "Transpose", 13, f16, {{8192 / shrink, 8192}}},
      {"Transpose fp16 BHSD->BSHD",
       "Transpose",
       13,
       f16,
       {{16, 32, 2048 / shrink, 64}},
       {{"perm", std::vector<int64_t>{0, 2, 1, 3}}}},
  };
}

struct Line {
  std::string name;
  double bytes = 0;
  Timing timing;
};

Result<Line> MeasureCase(const Case& c, StreamContext& stream) {
  test::Node node("", c.op, c.version);
  node.attributes = c.attributes;
  for (const auto& dims : c.inputs)
    node.inputs.push_back({.type = c.type, .dims = dims, .values = {}, .replay_values = {}});
  node.outputs = {c.type};
  ops::PlannedOperator planned;
  CUDAEP_RETURN_IF_ERROR(planned.Init(node));

  std::vector<ops::TensorView> views;
  std::vector<size_t> bytes;
  for (const auto& input : node.inputs) {
    views.push_back(input.View(nullptr));
    bytes.push_back(views.back().bytes());
  }
  PlanPin pin(stream.plan_pins());
  CUDAEP_ASSIGN_OR_RETURN(const ops::PlannedCall call, planned.PlanFor(pin, views, stream));
  bytes.push_back(static_cast<size_t>(plan->outputs[0].elems()) * SizeOf(c.type));
  CUDAEP_ASSIGN_OR_RETURN(const RotatingBuffers buffers, RotatingBuffers::Create(bytes, stream.stream()));
  Line line{c.name};
  for (size_t b : bytes) line.bytes += static_cast<double>(b);
  CUDAEP_ASSIGN_OR_RETURN(line.timing, MeasureUs(
                                           [&](int call) {
                                             for (size_t i = 0; i < views.size(); ++i)
                                               views[i].data = buffers.Tensor(call, i);
                                             void* output = buffers.Tensor(call, views.size());
                                             return planned.Enqueue(pin, call, views, &output, nullptr, stream);
                                           },
                                           20, 7, stream.stream()));
  return line;
}

Result<Line> MeasureCopy(size_t bytes, device::Stream stream) {
  CUDAEP_ASSIGN_OR_RETURN(const RotatingBuffers buffers, RotatingBuffers::Create({bytes, bytes}, stream));
  Line line{"device copy", 2.0 * static_cast<double>(bytes)};
  CUDAEP_ASSIGN_OR_RETURN(line.timing, MeasureUs(
                                           [&](int call) {
                                             return device::MemcpyAsync(buffers.Tensor(call, 1),
                                                                        buffers.Tensor(call, 0), bytes, stream);
                                           },
                                           20, 7, stream));
  return line;
}

Status Run(const char* json_path, bool small) {
  CUDAEP_ASSIGN_OR_RETURN(const device::DeviceInfo* info, device::GetDeviceInfo(0));
  device::UniqueStream owned;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(owned.Receive()));
  StreamContext stream(0, owned.get());
  CUDAEP_ASSIGN_OR_RETURN(const Line copy, MeasureCopy((size_t{512} << 20) / (small ? 64 : 1), owned.get()));
  const double copy_rate = copy.bytes / copy.timing.median_us;
  std::printf("%s, device copy %.0f GB/s\n", info->name.c_str(), copy_rate / 1e3);
  std::string json =
      StrCat("{\"device\": \"", info->name, "\", \"copy_gb_per_s\": ", copy_rate / 1e3, ", \"cases\": [");
  bool first = true;
  for (const Case& c : Cases(small)) {
    Result<Line> measured = MeasureCase(c, stream);
    if (!measured.ok()) {
      std::printf("%-30s %s\n", c.name.c_str(), measured.status().ToString().c_str());
      continue;
    }
    const Line& line = *measured;
    const double percent = 100 * line.bytes / line.timing.median_us / copy_rate;
    std::printf("%-30s %9.1f us (%.1f..%.1f)  %5.1f%% of copy\n", line.name.c_str(), line.timing.median_us,
                line.timing.min_us, line.timing.max_us, percent);
    json += StrCat(first ? "" : ", ", "{\"name\": \"", line.name, "\", \"us\": ", line.timing.median_us,
                   ", \"min_us\": ", line.timing.min_us, ", \"max_us\": ", line.timing.max_us,
                   ", \"percent_of_copy\": ", percent, "}");
    first = false;
  }
  if (json_path != nullptr) std::ofstream(json_path) << json << "]}\n";
  return Status::Ok();
}

}  // namespace
}  // namespace cudaep::bench

int main(int argc, char** argv) {
  const char* json = nullptr;
  bool small = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE] [--small]\n", argv[0]);
      return 2;
    }
  }
  const cudaep::Status status = cudaep::bench::Run(json, small);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
