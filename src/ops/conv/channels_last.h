// Convolutions run by the library as channels-last ones: tensor cores want channels innermost, and the library's own
// conversions around them cost more than the convolutions. And channels-last ones that it has no engine for.
#pragma once

#include "kernels/epilogue/finish.h"
#include "kernels/movement/transpose_plan.h"
#include "ops/conv/conv_run.h"

namespace cudaep::ops {

// A tensor's copy with its two last dimensions exchanged, [outer, rows, columns], at *next of a workspace; nothing is
// copied where nothing moves.
Result<TurnedTensor> TurnTensor(int64_t outer, int64_t rows, int64_t columns, size_t elem_bytes, size_t* next);
// `tensor` where it is read: itself, or its copy in the workspace.
Result<const void*> PlaceTurned(const TurnedTensor& turned, const void* tensor, std::byte* workspace,
                                StreamContext& stream);

// Whether it pays: 16-bit forward convolutions of whole packs of channels, all of which the weights tell.
bool PaysChannelsLast(const dnn::ConvProblem& problem);

// What a Conv among nodes that have channels-last forms has of one: a compiled region turns convolutions together, the
// operator each by itself where it pays. Weights are [out, in / groups, taps...].
enum class ChannelsLastUse : uint8_t { kLoses, kTakes, kGains };
ChannelsLastUse ChannelsLastUseOf(const Settings& settings, DataType type, int64_t groups, Dims weights);

// Bytes of the weights of a forward convolution, [out, in / groups, taps...], with their channels last; 0 where they
// are taken as they are.
size_t PackedConvWeights(const ConvOptions& options, dnn::Layout layout, int64_t groups, const TensorView& weights);
// kNotSupported under a memory limit: other routes turn them back, which takes room.
Status PackConvWeights(const TensorView& weights, void* packed, StreamContext& stream);

// Fills route, library and workspace of `plan`. kNotSupported where the library has no engine, the copies of the
// tensors have no room, or a channels-first problem has a residual, groups or the other direction.
Status PlanChannelsLast(const ConvOptions& options, StreamContext& stream, ConvRunPlan* plan);

// Makes a channels-last problem's plan of a channels-first one between transposes; a sum with a residual and what
// follows it are done after them. The copies of x and y come on top of what limits leave to workspaces: there is no
// other way to run it.
Result<std::unique_ptr<ConvRunPlan>> PlanTurned(const ConvOptions& options, StreamContext& stream,
                                                std::unique_ptr<ConvRunPlan> plan);
Status EnqueueTurned(const ConvRunPlan& plan, StreamContext& stream, const dnn::ConvPointers& at);

// By a plan of the plan's library. Tensors may have any alignment: those that do not move are copied where they must
// be. Parts, where the library takes those, are aligned to dnn::kTensorAlignment.
Status EnqueueChannelsLast(const ConvRunPlan& plan, const dnn::ConvPlan& library, StreamContext& stream,
                           const dnn::ConvPointers& at);

}  // namespace cudaep::ops
