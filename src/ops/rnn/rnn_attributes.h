// What LSTM, GRU and RNN nodes say in attributes. Pure.
#pragma once

#include "kernels/rnn/rnn.h"
#include "ops/op_info.h"

namespace cudaep::ops {

struct RnnAttributes {
  kernels::RnnCell cell = kernels::RnnCell::kRnn;
  int directions = 1;
  bool reverse = false;      // of the only direction; of two the second one always is
  int64_t hidden_size = -1;  // -1: as the weights have it
  bool batch_first = false;  // layout 1
  kernels::RnnFunction functions[kernels::kMaxRnnDirections][3];
  float clip = 0;
  bool input_forget = false, linear_before_reset = false;
};

Result<RnnAttributes> ParseRnn(const OpInfo& info, kernels::RnnCell cell);

}  // namespace cudaep::ops
