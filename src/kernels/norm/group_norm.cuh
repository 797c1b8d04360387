// What the kernels of group normalisation share: where a thread's packs lie, the moments of its channels, those of a
// group, and what is done to an element.
//
// An image is seen as pixels of channels, the channels in packs. A slice is as many whole groups as make whole packs; a
// thread has one pack of a slice's pixels and every so many pixels of it. Channels first, a group of a sample is an
// image of its own, whose "pixels" are its packs; then the channel follows from the pixel.
#pragma once

#include "device/launch.h"
#include "kernels/common/moments.cuh"
#include "kernels/common/raw_pack.cuh"
#include "kernels/norm/channel_value.cuh"
#include "kernels/norm/group_norm_input.h"
#include "kernels/norm/layer_norm_moments.cuh"
#include "kernels/reduce/reduce.h"

namespace cudaep::kernels {

// Moments without their count.
struct MeanSquares {
  float mean, squares;
};

// Where the calling thread is: its slice, and its pack and first pixel there.
template <int kPack>
struct GroupNormPlace {
  uint32_t image, slice, all;  // the slice's number in the image, and of those of all images
  uint32_t block;              // of those that share the slice
  int pack, row;               // of the slice; of a block's pixels that are read at a time
  int first_pixel, end_pixel;  // of the block
  int rounds;                  // that all rows of the block have, and rows that have one more
  uint32_t left_rows;
  int pixels;      // of the thread
  bool straddles;  // packs may have channels of two groups

  __device__ __forceinline__ explicit GroupNormPlace(const GroupNormInput& in, uint32_t number = blockIdx.x)
      : straddles(in.group % kPack != 0) {
    all = in.by_blocks.DivideWithRemainder(number, &block);
    image = in.by_slices.DivideWithRemainder(all, &slice);
    uint32_t column;
    row = static_cast<int>(in.by_packs.DivideWithRemainder(threadIdx.x, &column));
    pack = static_cast<int>(column);
    first_pixel = device::Min(static_cast<int>(block) * in.block_pixels, in.pixels);
    end_pixel = device::Min(first_pixel + in.block_pixels, in.pixels);
    const uint32_t all_pixels = static_cast<uint32_t>(end_pixel - first_pixel);
    rounds = static_cast<int>(in.by_rows.DivideWithRemainder(all_pixels, &left_rows));
    pixels = PixelsOf(in, row);
  }
  __device__ __forceinline__ int PixelsOf(const GroupNormInput& in, int of_row) const {
    return of_row >= in.rows ? 0 : rounds + (of_row < static_cast<int>(left_rows) ? 1 : 0);
  }
  // From the tensor's start to the thread's pack of pixel `first_pixel + row`.
  __device__ __forceinline__ int64_t Offset(const GroupNormInput& in) const {
    return static_cast<int64_t>(image) * (static_cast<int64_t>(in.pixels) * in.channels) +
           static_cast<int64_t>(first_pixel + row) * in.channels + Channel(in);
  }
  // The pack's first channel, in the image and in the slice.
  __device__ __forceinline__ int Channel(const GroupNormInput& in) const {
    return (static_cast<int>(slice) * in.packs + pack) * kPack;
  }
  __device__ __forceinline__ int SliceChannel() const { return pack * kPack; }
  // Of the slice, that of the pack's first channel; and how many of its channels are in it.
  __device__ __forceinline__ int Group(const GroupNormInput& in) const {
    return static_cast<int>(in.by_group.Divide(static_cast<uint32_t>(SliceChannel())));
  }
  __device__ __forceinline__ int Split(const GroupNormInput& in) const {
    return device::Min((Group(in) + 1) * in.group - SliceChannel(), kPack);
  }
};

// Of each channel of a pack, over pixels that a thread has.
template <class T, int kPack>
struct ChannelMoments {
  float count = 0;
  float mean[kPack] = {}, squares[kPack] = {};

  // Of the first `count` of kPixels packs, one at least: by their distance from the first one. Its own distance from
  // the mean is a part of the deviations, so what cancels is at most kPixels times what is left.
  template <int kPixels>
  __device__ __forceinline__ static ChannelMoments Of(const RawPack<T, kPack> (&raw)[kPixels], int count) {
    ChannelMoments made;
    float base[kPack], value[kPack], sum[kPack] = {};
    UnpackCompute<T, kPack>(raw[0], base);
#pragma unroll
    for (int j = 1; j < kPixels; ++j) {
      if (j >= count) break;
      UnpackCompute<T, kPack>(raw[j], value);
#pragma unroll
      for (int c = 0; c < kPack; ++c) {
        const float apart = value[c] - base[c];
        sum[c] += apart;
        made.squares[c] += apart * apart;
      }
    }
    made.count = static_cast<float>(count);
    const float inverse = RoughQuotient(1.0f, made.count);
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      const float step = sum[c] * inverse;
      made.mean[c] = base[c] + step;
      made.squares[c] = device::Max(made.squares[c] - step * sum[c], 0.0f);
    }
    return made;
  }

  __device__ __forceinline__ void Merge(const ChannelMoments& other) {
    const float total = count + other.count, share = count == 0 ? 1.0f : RoughQuotient(other.count, total);
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      const float delta = other.mean[c] - mean[c], step = delta * share;
      squares[c] += other.squares[c] + count * step * delta;
      mean[c] += step;
    }
    count = total;
  }

  // Those of the first `split` channels as one set, and of the others.
  __device__ __forceinline__ void Parts(int split, MeanSquares& first, MeanSquares& second) const {
    first = {0, 0}, second = {0, 0};
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      first.mean += c < split ? mean[c] - mean[0] : 0.0f;
      second.mean += c < split ? 0.0f : mean[c] - mean[kPack - 1];
    }
    first.mean = mean[0] + RoughQuotient(first.mean, static_cast<float>(split));
    second.mean = mean[kPack - 1] + RoughQuotient(second.mean, static_cast<float>(device::Max(kPack - split, 1)));
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      const float apart = mean[c] - (c < split ? first.mean : second.mean);
      const float all = squares[c] + count * apart * apart;
      first.squares += c < split ? all : 0.0f;
      second.squares += c < split ? 0.0f : all;
    }
  }
};

// What the threads of a block leave of their packs in its dynamic shared memory: [part][pack][row], part 1 being
// channels of the group behind the first one's.
template <class T, int kPack>
__device__ __forceinline__ void LeaveMoments(const GroupNormInput& in, const GroupNormPlace<kPack>& place,
                                             const ChannelMoments<T, kPack>& moments, MeanSquares* entries) {
  if (place.pixels == 0) return;
  const int rows = EntryRows(in.rows), at = place.pack * rows + place.row;
  MeanSquares first, second;
  moments.Parts(place.straddles ? place.Split(in) : kPack, first, second);
  entries[at] = first;
  if (place.straddles) entries[in.packs * rows + at] = second;
}

// By a warp, the `share`-th of `shares`: moments from its share of what the block's threads left of a group. Of no
// elements where there is none.
template <int kPack>
__device__ __forceinline__ PartMoments<float> GroupOfBlock(const GroupNormInput& in, const GroupNormPlace<kPack>& place,
                                                           int group, int share, int shares,
                                                           const MeanSquares* entries) {
  const int lane = static_cast<int>(threadIdx.x % 32), rows = EntryRows(in.rows);
  const int first = group * in.group, end = first + in.group;
  const int first_pack = first / kPack, packs = (end - 1) / kPack + 1 - first_pack;
  const MeanSquares* const from = entries + first_pack * rows;
  Moments<float> some;
  for (int e = share * 32 + lane; e < packs * rows; e += shares * 32) {
    uint32_t row;
    const int pack = static_cast<int>(in.by_entry_rows.DivideWithRemainder(static_cast<uint32_t>(e), &row));
    const int channel = (first_pack + pack) * kPack, pixels = place.PixelsOf(in, static_cast<int>(row));
    if (pixels == 0) continue;
    const int channels = device::Min(channel + kPack, end) - device::Max(channel, first);
    const MeanSquares entry = from[e + (channel < first ? in.packs * rows : 0)];
    const Moments<float> other{static_cast<float>(pixels * channels), entry.mean, entry.squares};
    if (some.count == 0) {
      some = other;  // exactly
    } else {
      some.Merge(other);
    }
  }
  const float count = SumOfLanes(some.count, 32);
  float mean, squares;
  MergeMoments<1>({some.count}, {some.mean}, {some.squares}, RoughQuotient(1.0f, device::Max(count, 1.0f)), 32, false,
                  mean, squares);
  return {count, mean, squares, 0};
}

// By a warp: of all `count` parts, as the mean and what deviations from it are multiplied by.
__device__ __forceinline__ NormScale<float> MergeGroup(const GroupNormInput& in, const PartMoments<float>* parts,
                                                       int count) {
  Moments<float> some;
  for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) {
    const Moments<float> other{parts[i].count, parts[i].mean, parts[i].squares};
    if (i < 32) {
      some = other;
    } else {
      some.Merge(other);
    }
  }
  float mean, squares;
  MergeMoments<1>({some.count}, {some.mean}, {some.squares}, in.inverse_elems, 32, false, mean, squares);
  return {mean, 1.0f / std::sqrt(squares * in.inverse_elems + in.epsilon)};
}

// x * sigmoid(x), as exactly as its type needs.
template <class T>
__device__ __forceinline__ float SwishOf(float x) {
  if constexpr (sizeof(T) == 2) {
    constexpr float kLog2OfE = 1.44269504f;
    return RoughQuotient(x, 1.0f + device::FastExp2(-kLog2OfE * x));
  } else {
    return x / (1.0f + std::exp(-x));
  }
}

// Scale and bias of the channels of a pack: asked for early, and used when the moments are there. Those of another type
// than T are read then.
template <class T, int kPack>
struct AffinePacks {
  RawPack<T, kPack> scale = {}, bias = {};

  __device__ __forceinline__ AffinePacks(const GroupNormInput& in, int channel) {
    if (!in.affine_packs) return;
    if (in.scale != nullptr) scale = LoadRaw<kPack>(static_cast<const T*>(in.scale) + channel);
    if (in.bias != nullptr) bias = LoadRaw<kPack>(static_cast<const T*>(in.bias) + channel);
  }
  __device__ __forceinline__ void Values(const GroupNormInput& in, int channel, float (&scales)[kPack],
                                         float (&biases)[kPack]) const {
    UnpackCompute<T, kPack>(scale, scales);
    UnpackCompute<T, kPack>(bias, biases);
#pragma unroll
    for (int c = 0; c < kPack; ++c) {
      if (in.scale == nullptr) scales[c] = 1;
      if (in.affine_packs) continue;
      if (in.scale != nullptr) scales[c] = ChannelValue<float>(in.scale, in.affine_type, channel + c);
      if (in.bias != nullptr) biases[c] = ChannelValue<float>(in.bias, in.affine_type, channel + c);
    }
  }
};

// (value - mean) * factor + bias. Of 16 bits the mean may be part of the term, unless a group is nearly constant.
struct ElementAffine {
  float factor, term;

  __device__ __forceinline__ void Set(const NormScale<float>& norm, float scale, float bias, bool folds) {
    factor = norm.factor * scale;
    term = folds ? bias - norm.shift * factor : bias;
  }
};
template <class T>
__device__ __forceinline__ bool FoldsMean(const NormScale<float>& norm) {
  constexpr float kMostDeviations = 2048;
  return sizeof(T) == 2 && std::fabs(norm.shift * norm.factor) <= kMostDeviations;
}

// What is done to the packs of a thread. kLast: each channel of a pack has its own scale and bias, the same for all
// pixels; else the pixel says which channel a pack is of.
template <class T, int kPack, bool kLast>
struct GroupAffine {
  ElementAffine of[kLast ? kPack : 1];
  NormScale<float> first, second;  // of the first `split` channels of a pack, and of the others
  int split = kPack;
  bool folds;
  const GroupNormInput& in;
  int channel;  // the first

  __device__ __forceinline__ GroupAffine(const GroupNormInput& input, const GroupNormPlace<kPack>& place,
                                         const NormScale<float>* of_group, const AffinePacks<T, kPack>& affine)
      : in(input) {
    if constexpr (kLast) {
      const int group = place.Group(in);
      if (place.straddles) split = place.Split(in);
      first = of_group[group], second = of_group[group + (split < kPack ? 1 : 0)];
      folds = FoldsMean<T>(first) && FoldsMean<T>(second);
      float scale[kPack], bias[kPack];
      affine.Values(in, place.Channel(in), scale, bias);
#pragma unroll
      for (int c = 0; c < kPack; ++c) of[c].Set(c < split ? first : second, scale[c], bias[c], folds);
    } else {
      first = second = of_group[0];
      folds = FoldsMean<T>(first);
      uint32_t group;
      in.by_group_images.DivideWithRemainder(place.image, &group);
      channel = static_cast<int>(group) * in.group_channels;
    }
  }

  __device__ __forceinline__ RawPack<T, kPack> operator()(const RawPack<T, kPack>& raw, int pixel) {
    float value[kPack];
    UnpackCompute<T, kPack>(raw, value);
    if constexpr (!kLast) {
      const int at = channel + static_cast<int>(in.by_channel_packs.Divide(static_cast<uint32_t>(pixel)));
      of[0].Set(first, in.scale == nullptr ? 1.0f : ChannelValue<float>(in.scale, in.affine_type, at),
                in.bias == nullptr ? 0.0f : ChannelValue<float>(in.bias, in.affine_type, at), folds);
    }
    if (!folds) {
#pragma unroll
      for (int c = 0; c < kPack; ++c) value[c] -= c < split ? first.shift : second.shift;
    }
#pragma unroll
    for (int c = 0; c < kPack; ++c) value[c] = value[c] * of[kLast ? c : 0].factor + of[kLast ? c : 0].term;
    if (in.swish) {
#pragma unroll
      for (int c = 0; c < kPack; ++c) value[c] = SwishOf<T>(value[c]);
    }
    return PackCompute<T, kPack>(value);
  }
};

}  // namespace cudaep::kernels
