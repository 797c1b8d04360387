// What is done to the sums of a matrix product or convolution before they are stored.
//
// D = activation(alpha * sum + bias + beta * residual), or with `adds_last` activation(alpha * sum + bias) + beta *
// residual, computed in the accumulator's type and rounded once where one kernel does all of it. Kernels, vendor
// libraries and operators share this one description.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cudaep {

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSigmoid,
  kSilu,
  kTanh,
  kClip,         // to [a, b]
  kLeakyRelu,    // a x below 0
  kHardSigmoid,  // a x + b, to [0, 1]
  kHardSwish,    // x times x / 6 + 1 / 2, that to [0, 1]
};
inline constexpr int kActivationCount = 11;

constexpr std::string_view ActivationName(Activation activation) {
  constexpr std::string_view kNames[kActivationCount] = {"none",       "relu",         "gelu",      "gelu_tanh",
                                                         "sigmoid",    "silu",         "tanh",      "clip",
                                                         "leaky_relu", "hard_sigmoid", "hard_swish"};
  return kNames[static_cast<int>(activation)];
}

constexpr std::optional<Activation> ActivationFromName(std::string_view name) {
  for (int i = 0; i < kActivationCount; ++i) {
    if (name == ActivationName(static_cast<Activation>(i))) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

// Parameters that an activation does not have are 0.
struct ActivationParameters {
  float a = 0.0f, b = 0.0f;
  bool operator==(const ActivationParameters&) const = default;
};

constexpr int ParameterCount(Activation activation) {
  if (activation == Activation::kClip || activation == Activation::kHardSigmoid) return 2;
  return activation == Activation::kLeakyRelu ? 1 : 0;
}

struct Epilogue {
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: there is no residual, and nothing is read for it
  bool bias = false;  // one value a column of a product, or an output channel of a convolution
  Activation activation = Activation::kNone;
  ActivationParameters parameters = {};
  bool adds_last = false;  // the residual comes behind the activation: of convolutions alone

  bool residual() const { return beta != 0.0f; }
  // Whether D is the sum itself.
  bool empty() const { return alpha == 1.0f && !residual() && !bias && activation == Activation::kNone; }
  bool operator==(const Epilogue&) const = default;
};

}  // namespace cudaep
