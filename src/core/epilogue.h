// What is done to the sums of a matrix product or convolution before they are stored.
//
// D = activation(alpha * sum + bias + beta * residual), computed in the accumulator's type and rounded once where one
// kernel does all of it. Kernels, vendor libraries and operators share this one description.
#pragma once

#include <cstdint>
#include <string_view>

namespace cudaep {

enum class Activation : uint8_t { kNone, kRelu, kGeluErf, kGeluTanh, kSigmoid, kSilu, kTanh };
inline constexpr int kActivationCount = 7;

constexpr std::string_view ActivationName(Activation activation) {
  constexpr std::string_view kNames[kActivationCount] = {"none",    "relu", "gelu", "gelu_tanh",
                                                         "sigmoid", "silu", "tanh"};
  return kNames[static_cast<int>(activation)];
}

struct Epilogue {
  float alpha = 1.0f;
  float beta = 0.0f;  // 0: there is no residual, and nothing is read for it
  bool bias = false;  // one value a column of a product, or an output channel of a convolution
  Activation activation = Activation::kNone;

  bool residual() const { return beta != 0.0f; }
  // Whether D is the sum itself.
  bool empty() const { return alpha == 1.0f && !residual() && !bias && activation == Activation::kNone; }
  bool operator==(const Epilogue&) const = default;
};

}  // namespace cudaep
