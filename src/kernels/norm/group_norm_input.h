// What the kernels of group normalisation are told of the image and of how it is shared out.
#pragma once

#include "kernels/fast_divide.h"
#include "kernels/norm/group_norm.h"

namespace cudaep::kernels {

// In elements, unless said otherwise. `pixels`, `channels` and `group` of the image as the kernel sees it.
struct GroupNormInput {
  const void* scale;  // or null; for each channel of the model's image
  const void* bias;   // or null; likewise
  DataType affine_type;
  bool swish;
  bool affine_packs;      // scale and bias allow packs, and are of the image's type
  uint8_t zeros[5] = {};  // where padding could hold most of an old pointer, which the simulated device would find
  int32_t pixels, channels, group;
  int32_t packs, rows;           // of a slice's pixel; pixels that a block reads at a time
  int32_t slice_groups;          // whole groups of a slice
  int32_t block_pixels;          // at most, of each block of those that share a slice
  int32_t blocks;                // that share one
  FastDivider by_blocks;         // those that share a slice
  FastDivider by_packs;          // threads
  FastDivider by_rows;           // pixels of a block
  FastDivider by_group;          // channels of a slice
  FastDivider by_slices;         // slices
  FastDivider by_entry_rows;     // EntryRows(rows)
  FastDivider by_group_images;   // channels first: images of a sample
  FastDivider by_channel_packs;  // channels first: packs of a channel
  int32_t group_channels;        // channels first: of the model's groups
  float epsilon, inverse_elems;  // of a group
};

// What threads leave of a pack is a column of as many, odd so that they lie in different banks.
CUDAEP_HOST_DEVICE constexpr int EntryRows(int rows) { return rows | 1; }

GroupNormInput MakeGroupNormInput(const GroupNormArgs& args);

// One launch, or two, as the plan has it.
Status LaunchGroupNormWhole(const GroupNormArgs& args, device::Stream stream);
Status LaunchGroupNormParts(const GroupNormArgs& args, device::Stream stream);

}  // namespace cudaep::kernels
