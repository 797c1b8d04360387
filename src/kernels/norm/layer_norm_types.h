// The files that hold layer normalisation kernels; LaunchLayerNorm chooses among them.
#pragma once

#include "kernels/norm/layer_norm.h"

namespace cudaep::kernels {

Status LaunchLayerNormUniform(const LayerNormArgs& args, device::Stream stream);  // input and output of one type
Status LaunchLayerNormMixed(const LayerNormArgs& args, device::Stream stream);    // fp32 and a 16-bit type

// By a plan of batches, teams, rings or long rows, which is `args.plans->packed`; pointers allow packs.
Status LaunchLayerNormBatch(const LayerNormArgs& args, device::Stream stream);
Status LaunchLayerNormTeam(const LayerNormArgs& args, device::Stream stream);
Status LaunchLayerNormRing(const LayerNormArgs& args, device::Stream stream);
Status LaunchLayerNormLong(const LayerNormArgs& args, device::Stream stream);
Status LaunchLayerNormLongFloat(const LayerNormArgs& args, device::Stream stream);  // fp32 in and out

// How many clusters of such a plan the current device holds at once.
Result<int> ActiveTeams(DataType type, const NormPlan& plan);
Result<int> ActiveRingClusters(DataType type, const NormPlan& plan);
Result<int> ActiveLongClusters(DataType type, const NormPlan& plan);
Result<int> ActiveLongClustersFloat(const NormPlan& plan);

}  // namespace cudaep::kernels
