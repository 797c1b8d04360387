// What nodes that convolve or multiply say of their epilogue: "activation", and its "activation_params".
#pragma once

#include "core/epilogue.h"
#include "ops/op_info.h"

namespace cudaep::ops {

// The activation and its parameters. FusedConv names it as ONNX operators are, nodes of the fused domain may also as
// ActivationName does.
Result<Epilogue> ParseActivation(const OpInfo& info);

// That of a gate, which the attribute names as ActivationName does; it has no parameters.
Result<Activation> ParseGate(const OpInfo& info, const char* attribute);

}  // namespace cudaep::ops
