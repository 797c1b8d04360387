#include <cmath>
#include <limits>

#include "core/checked_math.h"
#include "core/data_type_traits.h"
#include "device/rounded.h"
#include "kernels/detect/roi.h"
#include "kernels/fast_divide.h"
#include "kernels/index_limit.h"

namespace cudaep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostSamples = 1 << 16;  // of a bin along one axis

// What outputs are numbered by.
template <class Index>
struct Dividers {
  using Divider = std::conditional_t<sizeof(Index) == 4, FastDivider, Index>;
  Divider width, height, channels;

  explicit Dividers(const RoiShape& s)
      : width(static_cast<Index>(s.out_width)),
        height(static_cast<Index>(s.out_height)),
        channels(static_cast<Index>(s.channels)) {}
  static __device__ __forceinline__ Index Divide(Index n, const Divider& by, int64_t* remainder) {
    Index quotient, rest;
    if constexpr (sizeof(Index) == 4) {
      quotient = by.DivideWithRemainder(n, &rest);
    } else {
      quotient = n / by;
      rest = n - quotient * by;
    }
    *remainder = static_cast<int64_t>(rest);
    return quotient;
  }
};

// Where an output lies.
struct Place {
  int64_t roi, channel, row, column;
};

template <class Index>
__device__ __forceinline__ Place PlaceOf(const Dividers<Index>& by, Index i) {
  Place place;
  i = Dividers<Index>::Divide(i, by.width, &place.column);
  i = Dividers<Index>::Divide(i, by.height, &place.row);
  place.roi = static_cast<int64_t>(Dividers<Index>::Divide(i, by.channels, &place.channel));
  return place;
}

template <class C>
__device__ __forceinline__ int64_t SamplesOf(const RoiAlign& p, C bin) {
  if (p.sampling > 0) return p.sampling;
  const C count = std::ceil(bin);
  return count > C(0) ? static_cast<int64_t>(device::Min(count, C(kMostSamples))) : 0;
}

// A sample's position along one axis: the pixels around it, and how much the second one counts.
template <class C, class Pixel>
struct Sample {
  bool inside;
  Pixel low, high;
  C rest;
};

template <class C, class Pixel>
__device__ __forceinline__ Sample<C, Pixel> SampleAt(C at, Pixel size) {
  Sample<C, Pixel> sample{at >= C(-1) && at <= static_cast<C>(size), 0, 0, C(0)};
  if (!sample.inside) return sample;
  at = device::Max(at, C(0));
  sample.low = static_cast<Pixel>(at);
  if (sample.low >= size - 1) {
    sample.low = sample.high = size - 1;
  } else {
    sample.high = sample.low + 1;
    sample.rest = at - static_cast<C>(sample.low);
  }
  return sample;
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    RoiAlignKernel(__grid_constant__ const RoiAlign p, const T* x, __grid_constant__ const Dividers<Index> dividers,
                   const T* rois, const int64_t* indices, T* y, Index elems) {
  using C = ComputeType<T>;
  using Pixel = std::conditional_t<sizeof(Index) == 4, int32_t, int64_t>;
  device::GridDependencyWait();
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elems) return;
  const RoiShape& s = p.shape;
  const Place place = PlaceOf(dividers, i);
  const auto x_height = static_cast<Pixel>(s.height), x_width = static_cast<Pixel>(s.width);
  const int64_t image = indices[place.roi];
  const T* const corners = rois + place.roi * 4;
  const C scale = static_cast<C>(s.scale), shift = p.half_pixel ? C(0.5) : C(0);
  const auto corner = [&](int k) { return device::RoundedProduct(Load(corners[k]), scale) - shift; };
  const C left = corner(0), top = corner(1);
  C width = corner(2) - left, height = corner(3) - top;
  if (!p.half_pixel) width = device::Max(width, C(1)), height = device::Max(height, C(1));
  const C bin_height = height / static_cast<C>(s.out_height), bin_width = width / static_cast<C>(s.out_width);
  const int64_t rows = SamplesOf(p, bin_height), columns = SamplesOf(p, bin_width);
  C result = 0;
  const bool exists = image >= 0 && image < s.batches && x_height > 0 && x_width > 0;
  const T* const plane = x + ((exists ? image : 0) * s.channels + place.channel) * s.height * s.width;
  for (int64_t row = 0; exists && row < rows; ++row) {
    const C in_bin = (static_cast<C>(row) + C(0.5)) * bin_height / static_cast<C>(rows);
    const auto sy = SampleAt(top + device::RoundedProduct(static_cast<C>(place.row), bin_height) + in_bin, x_height);
    if (!sy.inside) {  // a row of zeros; most of a box that is far larger than the image are
      if (p.max && columns > 0) result = row == 0 ? C(0) : device::Max(result, C(0));
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      const C along = (static_cast<C>(column) + C(0.5)) * bin_width / static_cast<C>(columns);
      const auto sx = SampleAt(left + device::RoundedProduct(static_cast<C>(place.column), bin_width) + along, x_width);
      C value[4] = {};
      if (sx.inside) {
        value[0] = (C(1) - sy.rest) * (C(1) - sx.rest) * Load(plane[sy.low * x_width + sx.low]);
        value[1] = (C(1) - sy.rest) * sx.rest * Load(plane[sy.low * x_width + sx.high]);
        value[2] = sy.rest * (C(1) - sx.rest) * Load(plane[sy.high * x_width + sx.low]);
        value[3] = sy.rest * sx.rest * Load(plane[sy.high * x_width + sx.high]);
      }
      if (p.max) {
        const C most = device::Max(device::Max(value[0], value[1]), device::Max(value[2], value[3]));
        result = row == 0 && column == 0 ? most : device::Max(result, most);
      } else {
        result += value[0] + value[1] + value[2] + value[3];
      }
    }
  }
  if (!p.max) result /= static_cast<C>(device::Max(rows * columns, int64_t{1}));
  y[i] = Store<T>(result);
}

// The pixels [begin, end) of bin `bin` along one axis.
template <class C>
__device__ __forceinline__ void BinRange(C low, C high, int64_t bin, int64_t bins, int64_t size, int64_t* begin,
                                         int64_t* end) {
  const C bound = static_cast<C>(int64_t{1} << 30);
  const C first = device::Max(device::Min(std::round(low), bound), -bound);
  const C last = device::Max(device::Min(std::round(high), bound), -bound);
  const C extent = device::Max(last - first + C(1), C(1)) / static_cast<C>(bins);
  const auto start = static_cast<int64_t>(first);
  *begin = start + static_cast<int64_t>(std::floor(static_cast<C>(bin) * extent));
  *end = start + static_cast<int64_t>(std::ceil(static_cast<C>(bin + 1) * extent));
  *begin = device::Min(device::Max(*begin, int64_t{0}), size);
  *end = device::Min(device::Max(*end, int64_t{0}), size);
}

template <class T, class Index>
__global__ void __launch_bounds__(kThreads)
    MaxRoiPoolKernel(__grid_constant__ const RoiShape s, __grid_constant__ const Dividers<Index> dividers, const T* x,
                     const T* rois, T* y, Index elems) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elems) return;
  const Place place = PlaceOf(dividers, i);
  const T* const roi = rois + place.roi * 5;
  const C image = Load(roi[0]), scale = static_cast<C>(s.scale);
  int64_t top, bottom, left, right;
  BinRange(Load(roi[2]) * scale, Load(roi[4]) * scale, place.row, s.out_height, s.height, &top, &bottom);
  BinRange(Load(roi[1]) * scale, Load(roi[3]) * scale, place.column, s.out_width, s.width, &left, &right);
  const bool exists = image >= C(0) && image < static_cast<C>(s.batches);
  const bool empty = !exists || bottom <= top || right <= left;
  C result = empty ? C(0) : -std::numeric_limits<C>::infinity();
  const int64_t plane = (exists ? static_cast<int64_t>(image) : 0) * s.channels + place.channel;
  for (int64_t row = top; !empty && row < bottom; ++row) {
    const T* const line = x + (plane * s.height + row) * s.width;
    for (int64_t column = left; column < right; ++column) result = device::Max(result, Load(line[column]));
  }
  y[i] = Store<T>(result);
}

device::LaunchConfig Config(int64_t elems) {
  return {
      .grid = {static_cast<unsigned>(CeilDiv<int64_t>(elems, kThreads))}, .block = {kThreads}, .programmatic = true};
}

}  // namespace

Status LaunchRoiAlign(const RoiAlign& problem, DataType type, const void* x, const void* rois, const int64_t* indices,
                      void* y, device::Stream stream) {
  const int64_t elems = problem.shape.output_elems();
  if (elems == 0) return Status::Ok();
  const auto launch = [&]<class T, class Index>(Index count) {
    return device::Launch(RoiAlignKernel<T, Index>, Config(elems), stream, problem, static_cast<const T*>(x),
                          Dividers<Index>(problem.shape), static_cast<const T*>(rois), indices, static_cast<T*>(y),
                          count);
  };
  const bool narrow = FitsIndex(elems + kThreads) && FitsIndex(problem.shape.height * problem.shape.width);
  return VisitType<kFloatTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return narrow ? launch.template operator()<T>(static_cast<uint32_t>(elems))
                  : launch.template operator()<T>(static_cast<uint64_t>(elems));
  });
}

Status LaunchMaxRoiPool(const RoiShape& shape, DataType type, const void* x, const void* rois, void* y,
                        device::Stream stream) {
  const int64_t elems = shape.output_elems();
  if (elems == 0) return Status::Ok();
  const auto launch = [&]<class T, class Index>(Index count) {
    return device::Launch(MaxRoiPoolKernel<T, Index>, Config(elems), stream, shape, Dividers<Index>(shape),
                          static_cast<const T*>(x), static_cast<const T*>(rois), static_cast<T*>(y), count);
  };
  return VisitType<kFloatTypes>(type, NotSupported("element type ", DataTypeName(type)), [&]<class T>() {
    return FitsIndex(elems) ? launch.template operator()<T>(static_cast<uint32_t>(elems))
                            : launch.template operator()<T>(static_cast<uint64_t>(elems));
  });
}

}  // namespace cudaep::kernels
