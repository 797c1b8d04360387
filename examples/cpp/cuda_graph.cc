// CUDA graphs: the first Run with an id is captured, the next ones are one launch each. Shapes and addresses stay
// fixed; what lies there changes. Needs ONNX Runtime 1.26 and a model whose dimensions are all known.
#include "application.h"

int main(int argc, char** argv) {
  return RunExample(argc, argv, [](Application& application, const char* model) {
    Ort::Session session = application.Open(model, {{"enable_cuda_graph", "1"}});
    const Form in = Form::Input(session), out = Form::Output(session);
    const Ort::UnownedAllocator allocator = application.DeviceAllocator();
    Ort::Value x = in.Device(allocator), y = out.Device(allocator);
    Ort::IoBinding binding(session);
    binding.BindInput(in.name.c_str(), x);
    binding.BindOutput(out.name.c_str(), y);
    Ort::RunOptions graph;
    graph.AddConfigEntry("gpu_graph_id", "1");

    constexpr unsigned kRuns = 4;
    std::vector<std::vector<float>> results;
    for (unsigned seed = 0; seed < kRuns; ++seed) {
      std::vector<float> values = in.Values(seed);
      const Ort::Value host_x = in.Host(values);
      Ort::ThrowOnError(application.env.CopyTensor(host_x, x, nullptr));
      session.Run(graph, binding);  // seed 0: warms up, captures and computes; then replays
      std::vector<float>& result = results.emplace_back(out.count);
      Ort::Value host_y = out.Host(result);
      Ort::ThrowOnError(application.env.CopyTensor(y, host_y, nullptr));
    }

    Ort::Session ordinary = application.Open(model);
    for (unsigned seed = 0; seed < kRuns; ++seed) {
      if (results[seed] != Run(ordinary, in.Values(seed)))
        throw Ort::Exception("a replay has other results than a Run without a graph", ORT_FAIL);
    }
    std::printf("1 capture, %u replays, results as without a graph\n", kRuns - 1);
  });
}
