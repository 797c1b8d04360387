// Normalisation of groups of channels of images in either layout: what GroupNormalization, com.microsoft's GroupNorm
// and SkipGroupNorm and InstanceNormalization share.
//
// Images with their channels last, and results that end in x * sigmoid(x), have kernels of their own
// (kernels/norm/group_norm.h); others are rows like those of other normalisations (ops/norm/normalization.h).
#pragma once

#include "kernels/norm/group_norm.h"
#include "ops/norm/normalization.h"

namespace cudaep::ops {

struct ChannelGroupsSpec {
  DataType type = DataType::kUndefined;
  DataType affine_type = DataType::kUndefined;  // of scale and bias
  bool group_affine = false;                    // which have a value for each group instead of each channel
  bool channels_last = false;
  bool swish = false;
  double epsilon = 0;
};

// Whether images with their channels last are normalised as fast as others; groups divide the channels.
bool TakesChannelsLast(DataType type, int64_t channels, int64_t groups);

class ChannelGroups {
 public:
  explicit ChannelGroups(const ChannelGroupsSpec& spec);

  // Of images of shape `x`, whose channels are a multiple of `groups`.
  Result<PlanPtr> MakePlan(Dims x, int64_t groups, const PlanContext& context) const;
  // Input 0 to output 0.
  Status Enqueue(const Plan& plan, const OpContext& context, const void* scale, const void* bias) const;

 private:
  ChannelGroupsSpec spec_;
  Normalization rows_;
};

}  // namespace cudaep::ops
