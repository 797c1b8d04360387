// Maximum, minimum, sum or mean of up to kMaxVariadicInputs tensors in one launch, with numpy broadcasting.
//
// 16-bit floats are combined in fp32 and rounded once, however many launches that takes; a NaN makes every result NaN.
// Each input is read once and the output written once. The output may be the buffer of an input that has its shape and
// type.
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "device/device.h"
#include "kernels/elementwise/broadcast.h"

namespace cudaep::kernels {

inline constexpr int kMaxVariadicInputs = 32;

enum class VariadicOp : uint8_t { kMax, kMin, kSum, kMean };

constexpr DataTypeSet VariadicTypes(VariadicOp op) {
  return op == VariadicOp::kMax || op == VariadicOp::kMin ? kNumericTypes : kFloatTypes;
}

struct VariadicArgs {
  const void* const* inputs = nullptr;
  int count = 0;  // of the inputs, 1 to kMaxVariadicInputs
  void* y = nullptr;
  // Of the first `count` inputs; those behind are not looked at.
  const Broadcast<kMaxVariadicInputs>* broadcast = nullptr;
  double factor = 1;  // of the sum: kMean
  // Where there are more inputs than a launch takes: what those of earlier launches came to, or where that is left for
  // the next one. Of the type that is computed in, contiguous; may be `y` where that has this type.
  void* running = nullptr;
  bool resumes = false;  // begins with it
  bool pauses = false;   // leaves it, and does not write y
};

using VariadicKernel = Status (*)(const VariadicArgs& args, device::Stream stream);

// Null for types that the operation does not have.
VariadicKernel FindVariadicKernel(VariadicOp op, DataType type);

}  // namespace cudaep::kernels
