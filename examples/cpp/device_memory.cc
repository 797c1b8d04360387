// IO binding on device memory: inputs are written there once, Runs copy nothing, and results are read when they are
// needed.
#include <chrono>

#include "application.h"

int main(int argc, char** argv) {
  return RunExample(argc, argv, [](Application& application, const char* model) {
    Ort::Session session = application.Open(model);
    const Form in = Form::Input(session), out = Form::Output(session);
    const Ort::UnownedAllocator allocator = application.DeviceAllocator();
    Ort::Value x = in.Device(allocator), y = out.Device(allocator);

    std::vector<float> values = in.Values(1), result(out.count);
    const Ort::Value host_x = in.Host(values);
    Ort::Value host_y = out.Host(result);
    Ort::ThrowOnError(application.env.CopyTensor(host_x, x, nullptr));  // a null stream: done when it returns

    Ort::IoBinding binding(session);
    binding.BindInput(in.name.c_str(), x);
    binding.BindOutput(out.name.c_str(), y);
    const Ort::RunOptions run;
    session.Run(run, binding);  // makes plans for these shapes
    constexpr int kRuns = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) session.Run(run, binding);
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;

    Ort::ThrowOnError(application.env.CopyTensor(y, host_y, nullptr));
    if (result != Run(session, values)) throw Ort::Exception("bound memory has other results", ORT_FAIL);
    std::printf("%.1f us a Run on device memory, %zu outputs as from host memory\n", spent.count() / kRuns,
                result.size());
  });
}
