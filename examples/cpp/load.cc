// The least: register the provider, open a session, run it from host memory.
#include "application.h"

int main(int argc, char** argv) {
  return RunExample(argc, argv, [](Application& application, const char* model) {
    for (const Ort::ConstEpDevice& device : application.devices) {
      const auto facts = device.EpMetadata();
      std::printf("device %s: %s\n", facts.GetValue("cuda_ordinal"), facts.GetValue("name"));
    }
    Ort::Session session = application.Open(model, {{"require_all_compute_nodes", "1"}});
    const Form in = Form::Input(session);
    const std::vector<float> y = Run(session, in.Values(0));
    std::printf("%zu inputs, %zu outputs, the first is %g\n", in.count, y.size(), static_cast<double>(y.front()));
  });
}
