#include "node.h"

#include <utility>

namespace cudaep::test {

Node::Node(std::string domain, std::string op_type, int since_version)
    : domain_(std::move(domain)), op_type_(std::move(op_type)), since_version_(since_version) {
  settings_.use_tf32 = false;  // the tolerances of float32 mean float32
}

Status Node::SetOption(std::string_view name, int64_t value) {
  const std::pair<std::string_view, bool Settings::*> flags[] = {
      {"use_tf32", &Settings::use_tf32},
      {"deterministic_compute", &Settings::deterministic},
      {"enable_cudnn", &Settings::enable_cudnn},
      {"compiled_engines", &Settings::compiled_engines},
      {"cudnn_conv_use_max_workspace", &Settings::conv_use_max_workspace},
      {"cudnn_conv1d_pad_to_nc1d", &Settings::conv1d_pad_to_nc1d},
      {"prefer_nhwc", &Settings::prefer_nhwc},
      {"enable_skip_layer_norm_strict_mode", &Settings::strict_skip_layer_norm},
  };
  for (const auto& [flag, member] : flags) {
    if (flag == name) {
      settings_.*member = value != 0;
      return Status::Ok();
    }
  }
  if (name == "gemm_path") {
    settings_.gemm_path = static_cast<GemmPath>(value);
    return Status::Ok();
  }
  if (name == "conv_path") {
    settings_.conv_path = static_cast<ConvPath>(value);
    return Status::Ok();
  }
  if (name == "norm_path") {
    settings_.norm_path = static_cast<NormPath>(value);
    return Status::Ok();
  }
  if (name == "collective_size") {
    settings_.group.size = static_cast<int>(value);
    return Status::Ok();
  }
  return InvalidArgument("the operator test driver knows no option '", name, "'");
}

std::optional<ops::ConstantInfo> Node::constant(int index) const {
  if (index < 0 || index >= input_count()) return std::nullopt;
  const InputTensor& input = inputs[static_cast<size_t>(index)];
  if (!input.constant) return std::nullopt;
  return ops::ConstantInfo{.type = input.type, .dims = Shape(Dims(input.dims))};
}

}  // namespace cudaep::test
