#include "ops/activation_attributes.h"

#include "ops/registry.h"

namespace cudaep::ops {
namespace {

// Of FusedConv, by the names of ONNX operators, and of the fused Conv.
Result<Activation> FindActivation(const OpInfo& info, const std::string& name) {
  constexpr std::pair<std::string_view, Activation> kOnnxNames[] = {{"", Activation::kNone},
                                                                    {"Clip", Activation::kClip},
                                                                    {"HardSigmoid", Activation::kHardSigmoid},
                                                                    {"LeakyRelu", Activation::kLeakyRelu},
                                                                    {"Relu", Activation::kRelu},
                                                                    {"Sigmoid", Activation::kSigmoid},
                                                                    {"Tanh", Activation::kTanh}};
  for (const auto& [onnx, activation] : kOnnxNames) {
    if (name == onnx) return activation;
  }
  if (info.domain() == kFusedDomain) {
    if (const auto found = ActivationFromName(name)) return *found;
  }
  return NotSupported("activation '", name, "' of ", info.op_type());
}

}  // namespace

Result<Epilogue> ParseActivation(const OpInfo& info) {
  const std::string name = info.StringOr("activation", "");
  Epilogue epilogue;
  CUDAEP_ASSIGN_OR_RETURN(epilogue.activation, FindActivation(info, name));
  const std::vector<float> values = info.Floats("activation_params").value_or(std::vector<float>());
  const auto count = static_cast<size_t>(ParameterCount(epilogue.activation));
  if (values.size() != count) {
    return InvalidArgument("activation '", name, "' has ", count, " parameters, not ", values.size());
  }
  if (count > 0) epilogue.parameters.a = values[0];
  if (count > 1) epilogue.parameters.b = values[1];
  return epilogue;
}

Result<Activation> ParseGate(const OpInfo& info, const char* attribute) {
  const std::string name = info.StringOr(attribute, "none");
  const auto found = ActivationFromName(name);
  if (!found || ParameterCount(*found) != 0) return NotSupported("activation '", name, "' of a gate");
  return *found;
}

}  // namespace cudaep::ops
