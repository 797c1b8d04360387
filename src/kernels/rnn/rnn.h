// One step of LSTM, GRU and RNN: what is left when products with the weights are done.
//
// A step adds both products and the biases, applies the activations and carries the state on, for all directions at
// once. It adds in fp32 (double for double), and so is the cell state kept. Products come in the tensors' type, so
// those of 16 bits were rounded once; the hidden state has that type too, since the next product reads it.
//
// A direction that runs backwards meets element length - 1 - step of each sequence. Behind a sequence's length the
// state stays and Y is 0. Lengths are read on the device and clamped to [0, steps].
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

enum class RnnActivation : uint8_t {
  kAffine,
  kElu,
  kHardSigmoid,
  kLeakyRelu,
  kRelu,
  kScaledTanh,
  kSigmoid,
  kSoftplus,
  kSoftsign,
  kTanh,
  kThresholdedRelu,
};

struct RnnFunction {
  RnnActivation kind = RnnActivation::kTanh;
  float alpha = 0, beta = 0;
};

enum class RnnCell : uint8_t { kLstm, kGru, kRnn };
constexpr int GatesOf(RnnCell cell) { return cell == RnnCell::kLstm ? 4 : cell == RnnCell::kGru ? 3 : 1; }

inline constexpr int kMaxRnnDirections = 2;

// Strides are in elements, but for those of `x`: rows of the input product.
struct RnnShape {
  int64_t steps = 0, batch = 0, hidden = 0;
  int32_t directions = 1;
  bool reverse[kMaxRnnDirections] = {};
  int64_t x_step = 0, x_batch = 0;
  int64_t y_step = 0, y_batch = 0, y_direction = 0;  // of Y
  int64_t state_batch = 0, state_direction = 0;      // of initial and final states
  RnnFunction functions[kMaxRnnDirections][3];       // f, g, h as ONNX names them
  float clip = 0;                                    // 0: none
  bool input_forget = false;                         // LSTM: i and f are coupled
  bool linear_before_reset = false;                  // GRU
};

// Gates follow each other in ONNX's order. Null where the node has no such tensor.
struct RnnPointers {
  const void* x_product = nullptr;   // [rows, directions, gates, hidden]
  const void* h_product = nullptr;   // [directions, batch, gates, hidden]; GRU that resets first: z and r, then h
  const void* bias = nullptr;        // [directions, 2, gates, hidden]
  const void* peephole = nullptr;    // LSTM: [directions, 3, hidden], of i, o, f
  const int32_t* lengths = nullptr;  // [batch]
  const void* initial_h = nullptr;
  const void* initial_c = nullptr;
  void* h = nullptr;          // the state, [directions, batch, hidden]
  void* c = nullptr;          // the same of the cell, fp32 or double; GRU that resets first: z
  void* reset_h = nullptr;    // GRU that resets first: r * h
  void* next_rows = nullptr;  // the state once more, as a fused step reads it (fused_step.h)
  bool rows_are_tf32 = false;
  void* y = nullptr;
  void* y_h = nullptr;
  void* y_c = nullptr;
};

inline constexpr DataTypeSet kRnnTypes = kFloatTypes;

// Bytes of an element of RnnPointers::c.
constexpr size_t RnnCellBytes(DataType type) { return type == DataType::kDouble ? 8 : 4; }

// States before the first step. Without steps they are the final ones too.
Status LaunchRnnStart(const RnnShape& shape, DataType type, const RnnPointers& at, device::Stream stream);

// The last step also writes final states.
Status LaunchLstmStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream);
Status LaunchRnnStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream);
// The whole step where linear_before_reset is set; else its second half, after LaunchGruReset and a product of reset_h.
Status LaunchGruStep(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream);
Status LaunchGruReset(const RnnShape& shape, DataType type, const RnnPointers& at, int64_t step, device::Stream stream);

}  // namespace cudaep::kernels
