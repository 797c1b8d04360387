// From the inputs of a recurrent node to its problem, and from its tensors to those of a run. Pure.
#pragma once

#include "ops/rnn/rnn_run.h"

namespace cudaep::ops {

// Inputs of LSTM, and of GRU and RNN as far as those have them. Other operators may have more behind.
enum RnnInput { kRnnX, kRnnW, kRnnR, kRnnBias, kRnnLengths, kRnnInitialH, kRnnInitialC, kRnnPeephole };

// Weights lie as [directions, gates * hidden, inputs], as ONNX has them, or the other way around.
enum class RnnWeights : uint8_t { kRows, kColumns };

// Checks every input that is there.
Result<RnnProblem> PlaceRnn(const RnnAttributes& attributes, DataType type, TensorViews inputs,
                            RnnWeights weights = RnnWeights::kRows);

// Shapes of Y, Y_h and Y_c.
Status RnnOutputs(const RnnAttributes& attributes, const RnnProblem& problem, std::vector<Shape>& outputs);

RnnTensors RnnTensorsOf(kernels::RnnCell cell, const OpContext& context);

}  // namespace cudaep::ops
