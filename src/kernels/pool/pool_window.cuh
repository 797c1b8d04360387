// What the pooling kernels share: which output a thread has, which taps of its window meet the input, the launch.
#pragma once

#include "device/launch.h"
#include "kernels/common/whole_parts.h"
#include "kernels/fast_divide.h"
#include "kernels/pool/pool.h"

namespace cudaep::kernels {

inline constexpr int kPoolThreads = 256;

struct PoolArgs {
  PoolShape shape;
  FastDivider out[3], channels;  // of channels those that a thread has together
  int64_t in_plane, out_plane;   // positions
  int64_t first_plane;           // planes of earlier launches
  uint32_t threads;
};

// Taps [first, last) of a window along one dimension meet the input; tap t is at input position start + t * dilation.
struct PoolRange {
  int start, first, last;
};

__device__ __forceinline__ int CeilDivPositive(int value, int divisor) {
  if (value <= 0) return 0;
  return divisor == 1 ? value : (value - 1) / divisor + 1;
}

__device__ __forceinline__ PoolRange MeetInput(const PoolShape& s, int d, int out) {
  const int start = out * s.stride[d] - s.pad_begin[d];
  return {start, CeilDivPositive(-start, s.dilation[d]),
          device::Min(s.kernel[d], CeilDivPositive(s.in[d] - start, s.dilation[d]))};
}

struct PoolPlace {
  int64_t plane;
  int channel, position;  // position: of the result in its plane
  int64_t input, output;  // offsets of the channel in the plane, and of the result
  PoolRange range[3];
};

// For `pack` channels a thread.
__device__ __forceinline__ PoolPlace LocatePool(const PoolArgs& args, uint32_t thread, int pack = 1) {
  uint32_t channel, out0, out1, out2;
  const uint32_t position = args.channels.DivideWithRemainder(thread, &channel);
  const uint32_t of_launch = args.out[0].DivideWithRemainder(
      args.out[1].DivideWithRemainder(args.out[2].DivideWithRemainder(position, &out2), &out1), &out0);
  const int64_t plane = args.first_plane + of_launch;
  const int first = static_cast<int>(channel) * pack;
  return {plane,
          first,
          static_cast<int>(position - of_launch * static_cast<uint32_t>(args.out_plane)),
          plane * args.in_plane * args.shape.channels + first,
          args.first_plane * args.out_plane * args.shape.channels + static_cast<int64_t>(thread) * pack,
          {MeetInput(args.shape, 0, static_cast<int>(out0)), MeetInput(args.shape, 1, static_cast<int>(out1)),
           MeetInput(args.shape, 2, static_cast<int>(out2))}};
}

// Calls visit(position in the plane) for every tap that meets the input, in the order of the input.
template <class Visit>
__device__ __forceinline__ void VisitWindow(const PoolShape& s, const PoolPlace& at, Visit&& visit) {
  const auto& [range0, range1, range2] = at.range;
  for (int t0 = range0.first; t0 < range0.last; ++t0) {
    for (int t1 = range1.first; t1 < range1.last; ++t1) {
      const int row = (range0.start + t0 * s.dilation[0]) * s.in[1] + range1.start + t1 * s.dilation[1];
      for (int t2 = range2.first; t2 < range2.last; ++t2) visit(row * s.in[2] + range2.start + t2 * s.dilation[2]);
    }
  }
}

// Taps of a window inside the input, with `count_padding` inside its padding as well; a last window of ceil_mode may
// reach beyond both.
__device__ __forceinline__ int64_t CountTaps(const PoolShape& s, const PoolPlace& at, bool count_padding) {
  int64_t count = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const PoolRange& range = at.range[d];
    const int padded = CeilDivPositive(s.in[d] + s.pad_end[d] - range.start, s.dilation[d]);
    count *= count_padding ? device::Min(s.kernel[d], padded) : device::Max(0, range.last - range.first);
  }
  return count;
}

// launch(config, args) for as many whole planes at a time as 31 bits number threads, one for each output position and
// `pack` of its channels.
template <class LaunchPart>
Status LaunchPlanes(const PoolShape& shape, LaunchPart&& launch, int pack = 1) {
  const int64_t lanes = shape.channels / pack;
  PoolArgs args{};
  args.shape = shape;
  args.in_plane = static_cast<int64_t>(shape.in[0]) * shape.in[1] * shape.in[2];
  args.out_plane = static_cast<int64_t>(shape.out[0]) * shape.out[1] * shape.out[2];
  if (shape.planes == 0 || args.out_plane == 0 || lanes == 0) return Status::Ok();
  args.channels = FastDivider(static_cast<uint32_t>(lanes));
  for (int d = 0; d < 3; ++d) args.out[d] = FastDivider(static_cast<uint32_t>(shape.out[d]));
  return LaunchWholeParts(shape.planes, args.out_plane * lanes, kPoolThreads,
                          [&](const device::LaunchConfig& config, int64_t plane, uint32_t threads) {
                            args.first_plane = plane;
                            args.threads = threads;
                            return launch(config, args);
                          });
}

}  // namespace cudaep::kernels
