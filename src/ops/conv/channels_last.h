// A channels-first convolution run by the library as a channels-last one: tensor cores want channels innermost, and the
// library's own conversions around them cost more than the convolutions.
#pragma once

#include "kernels/epilogue/finish.h"
#include "kernels/movement/transpose_plan.h"
#include "ops/conv/conv_run.h"

namespace cudaep::ops {

// Whether it pays: 16-bit forward convolutions of whole packs of channels, all of which the weights tell.
bool PaysChannelsLast(const dnn::ConvProblem& problem);

// Bytes of the weights of a forward convolution, [out, in / groups, taps...], with their channels last; 0 where they
// are taken as they are.
size_t PackedConvWeights(const ConvOptions& options, int64_t groups, const TensorView& weights);
// kNotSupported under a memory limit: other routes turn them back, which takes room.
Status PackConvWeights(const TensorView& weights, void* packed, StreamContext& stream);

// Fills route, library and workspace of `plan`, whose problem is channels-first. kNotSupported where the library has no
// engine, the problem has a residual, or the copies of the tensors have no room.
Status PlanChannelsLast(const ConvOptions& options, StreamContext& stream, ConvRunPlan* plan);

// Tensors may have any alignment: those that do not move are copied where they must be.
Status EnqueueChannelsLast(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at);

}  // namespace cudaep::ops
