#include <limits>

#include "core/data_type_traits.h"
#include "device/pairs.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/pool/pool_join.cuh"
#include "kernels/pool/pool_last.h"
#include "kernels/pool/pool_window.cuh"

namespace cudaep::kernels {
namespace {

struct LargerOf : JoinLarger {
  // Pairs of 16-bit floats are compared as they are: converting nine of them costs more than the window's loads.
  template <class T>
  static constexpr bool kJoinsPairs = detail::kPairs<T, 2>&& device::kTargetArch >= 800;
  template <class T>
  static __device__ __forceinline__ uint32_t JoinPairs(uint32_t a, uint32_t b) {
    return device::MaxOrNanOfPairs<T>(a, b);
  }

  // Of a window that meets `taps` of the input.
  template <class C>
  __device__ __forceinline__ C Finish(C value, int64_t taps, int64_t /*count*/) const {
    return taps == 0 ? std::numeric_limits<C>::lowest() : value;
  }
};

struct MeanOf : JoinSum {
  template <class T>
  static constexpr bool kJoinsPairs = false;

  template <class C>
  __device__ __forceinline__ C Finish(C sum, int64_t /*taps*/, int64_t count) const {
    return count == 0 ? C{} : sum / static_cast<C>(count);
  }
};

// kTaps: of a window of kTaps x kTaps without dilation, whose loads all come before the first use; 0 for any other.
template <class T, int kPack, int kTaps, class Join>
__global__ void __launch_bounds__(kPoolThreads)
    PoolLastKernel(const T* x, T* y, Join join, bool count_padding, __grid_constant__ const PoolArgs args) {
  using C = ComputeType<T>;
  device::GridDependencyWait();
  const uint32_t thread = blockIdx.x * kPoolThreads + threadIdx.x;
  if (thread >= args.threads) return;
  const PoolPlace at = LocatePool(args, thread, kPack);
  const PoolShape& s = args.shape;
  const int64_t channels = s.channels;
  const T* const plane = x + at.input;
  C result[kPack];
#pragma unroll
  for (int k = 0; k < kPack; ++k) result[k] = Join::template kNeutral<C>;
  const auto add = [&](const RawPack<T, kPack>& raw) {
    C value[kPack];
    UnpackCompute<T, kPack>(raw, value);
#pragma unroll
    for (int k = 0; k < kPack; ++k) result[k] = join(result[k], value[k]);
  };
  if constexpr (kTaps == 0) {
    VisitWindow(s, at, [&](int offset) { add(LoadRaw<kPack>(plane + offset * channels)); });
  } else {
    const auto meets = [&](int i, int j) {
      return i >= at.range[1].first && i < at.range[1].last && j >= at.range[2].first && j < at.range[2].last;
    };
    constexpr bool kPairs = Join::template kJoinsPairs<T>;
    RawPack<T, kPack> raw[kTaps][kTaps], joined = PackCompute<T, kPack>(result);
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
#pragma unroll
      for (int j = 0; j < kTaps; ++j) {
        if (kPairs) raw[i][j] = joined;
        const int offset = (at.range[1].start + i) * s.in[2] + at.range[2].start + j;
        if (meets(i, j)) raw[i][j] = LoadRaw<kPack>(plane + offset * channels);
      }
    }
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
#pragma unroll
      for (int j = 0; j < kTaps; ++j) {
        if constexpr (kPairs) {
#pragma unroll
          for (int k = 0; k < kPack / 2; ++k) {
            joined.word[k] = Join::template JoinPairs<T>(joined.word[k], raw[i][j].word[k]);
          }
        } else if (meets(i, j)) {
          add(raw[i][j]);
        }
      }
    }
    if constexpr (kPairs) UnpackCompute<T, kPack>(joined, result);
  }
  const int64_t taps = CountTaps(s, at, false), count = count_padding ? CountTaps(s, at, true) : taps;
#pragma unroll
  for (int k = 0; k < kPack; ++k) result[k] = join.Finish(result[k], taps, count);
  StoreWords<kPack>(y + at.output, PackCompute<T, kPack>(result));
}

template <class T, class Join>
Status LaunchLast(const PoolShape& s, const Join& join, bool count_padding, const void* x, void* y,
                  device::Stream stream, bool* launched) {
  constexpr int kPack = PackElems(sizeof(T));
  if (s.channels % kPack != 0 || !IsAligned(x, kPackBytes) || !IsAligned(y, kPackBytes)) return Status::Ok();
  *launched = true;
  const bool flat = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.pad_begin[0] == 0 && s.pad_end[0] == 0;
  const bool square = s.kernel[1] == s.kernel[2] && s.dilation[1] == 1 && s.dilation[2] == 1;
  auto* kernel = PoolLastKernel<T, kPack, 0, Join>;
  if (flat && square && s.kernel[1] == 2) kernel = PoolLastKernel<T, kPack, 2, Join>;
  if (flat && square && s.kernel[1] == 3) kernel = PoolLastKernel<T, kPack, 3, Join>;
  if constexpr (std::is_same_v<Join, LargerOf> && sizeof(T) == 2) {  // maxima of detectors
    if (flat && square && s.kernel[1] == 5) kernel = PoolLastKernel<T, kPack, 5, Join>;
  }
  return LaunchPlanes(
      s,
      [&](const device::LaunchConfig& config, const PoolArgs& args) {
        return device::Launch(kernel, config, stream, static_cast<const T*>(x), static_cast<T*>(y), join, count_padding,
                              args);
      },
      kPack);
}

}  // namespace

Status LaunchMaxPoolLast(const PoolShape& shape, const void* x, void* y, device::Stream stream, bool* launched) {
  constexpr DataTypeSet kTypes = kMaxPoolTypes - DataTypeSet(DataType::kDouble);
  return VisitType<kTypes>(shape.type, Status::Ok(),
                           [&]<class T>() { return LaunchLast<T>(shape, LargerOf{}, false, x, y, stream, launched); });
}

Status LaunchAveragePoolLast(const PoolShape& shape, bool count_padding, const void* x, void* y, device::Stream stream,
                             bool* launched) {
  return VisitType<kFloatTypesNoDouble>(shape.type, Status::Ok(), [&]<class T>() {
    return LaunchLast<T>(shape, MeanOf{}, count_padding, x, y, stream, launched);
  });
}

}  // namespace cudaep::kernels
