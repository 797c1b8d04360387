// The machine that does a chain's steps, for the elements of one thread.
//
// A thread has kV elements: one pack, loaded and stored with 16 bytes an instruction; or, where packs would straddle
// rows or are not aligned, elements that lie a block's width apart. The accumulator is in registers, which cannot be
// addressed at run time: slots are in shared memory, as are elements on their way into a loop.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/common/raw_pack.cuh"
#include "kernels/elementwise/chain_functions.cuh"
#include "kernels/elementwise/elementwise.cuh"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // a member that only a concept asks for counts as never referenced
#endif

namespace cudaep::kernels {

inline constexpr int kChainThreads = 128;  // of a block
// What loops over elements go through: x, and y of functions of two.
inline constexpr uint32_t kWorkSlots = 2;

struct ChainInputs {
  const void* pointer[kMaxChainInputs];
  DataType type[kMaxChainInputs];
};
struct ChainOutputs {
  static constexpr bool kWritesThroughPointers = true;
  void* pointer[kMaxChainOutputs];
  DataType type[kMaxChainOutputs];
};
struct ChainWalk {
  Walk<kMaxChainInputs> walk;
  bool packed;
};

// Calls `visit.operator()<T>()` with a type that chains read.
template <class Visitor>
__device__ __forceinline__ void VisitChainType(DataType type, Visitor&& visit) {
  switch (type) {
    case DataType::kFloat16:
      return visit.template operator()<Half>();
    case DataType::kBFloat16:
      return visit.template operator()<BFloat16>();
    case DataType::kBool:
      return visit.template operator()<bool>();
    case DataType::kInt32:
      return visit.template operator()<int32_t>();
    case DataType::kInt64:
      return visit.template operator()<int64_t>();
    default:
      return visit.template operator()<float>();
  }
}

template <class T>
__device__ __forceinline__ T FromFloat(float x) {
  if constexpr (std::is_same_v<ComputeType<T>, float>) {
    return Store<T>(x);
  } else {
    return static_cast<T>(x != 0.0f);
  }
}

template <int kV>
class ChainMachine {
 public:
  __device__ ChainMachine(const ChainInputs& in, const ChainOutputs& out, const ChainWalk& walk, uint32_t first)
      : in_(in),
        out_(out),
        walk_(walk.walk),
        work_(device::DynamicShared<Quad>() + threadIdx.x),
        first_(first),
        stride_(walk.packed ? 1 : kChainThreads),
        whole_(walk.packed && first + kV <= walk.walk.elems) {}

  __device__ __forceinline__ void Run(const ChainProgram& program) {
    ChainStep next = program.steps[0];
#pragma unroll 1
    for (int i = 1;; ++i) {
      const ChainStep step = next;
      next = program.steps[i];
      if (step.code() == ChainCode::kAffine) {  // the most frequent one is found first
        Each([=](float x) { return fmaf(step.a, x, step.b); });
      } else if (step.code() == ChainCode::kEnd) {
        return;
      } else if (step.source() == kNoChainSource) {
        DoOne(step);
      } else {
        float y[kV];
        Fetch(step, y);
        DoTwo(step, y);
      }
    }
  }

 private:
  using Quad = Pack<float, 4>;

  __device__ __forceinline__ Quad& QuadAt(uint32_t slot, int q) { return work_[(slot * (kV / 4) + q) * kChainThreads]; }
  __device__ __forceinline__ float& ElementAt(uint32_t slot, int k) { return QuadAt(slot, k / 4).value[k % 4]; }
  __device__ __forceinline__ void ReadSlot(uint32_t slot, float (&to)[kV]) {
#pragma unroll
    for (int q = 0; q < kV / 4; ++q) {
      const Quad quad = QuadAt(slot, q);
#pragma unroll
      for (int k = 0; k < 4; ++k) to[4 * q + k] = quad.value[k];
    }
  }
  __device__ __forceinline__ void WriteSlot(uint32_t slot, const float (&from)[kV]) {
#pragma unroll
    for (int q = 0; q < kV / 4; ++q) {
      Quad quad;
#pragma unroll
      for (int k = 0; k < 4; ++k) quad.value[k] = from[4 * q + k];
      QuadAt(slot, q) = quad;
    }
  }

  // ---- Memory -----------------------------------------------------------------------------------------------------

  __device__ __forceinline__ uint32_t OffsetOf(uint32_t input, uint32_t element) const {
    uint32_t offset = 0, rest = element;
#pragma unroll 1
    for (int d = 0; d < walk_.rank; ++d) {
      uint32_t coordinate = rest;
      if (d + 1 < walk_.rank) rest = walk_.size[d].DivideWithRemainder(coordinate, &coordinate);
      offset += coordinate * walk_.stride[input][d];
    }
    return offset;
  }

  template <class T>
  __device__ __forceinline__ float LoadOne(uint32_t input, uint32_t element) const {
    return static_cast<float>(Load(static_cast<const T*>(in_.pointer[input])[OffsetOf(input, element)]));
  }

  template <class T>
  static __device__ __forceinline__ void LoadPacks(const T* from, float (&y)[kV]) {
    constexpr int kN = std::min(kV, PackElems(sizeof(T)));
#pragma unroll
    for (int i = 0; i < kV; i += kN) {
      const RawPack<T, kN> raw = LoadRaw<kN>(from + i);
      if constexpr (std::is_same_v<ComputeType<T>, float>) {
        UnpackCompute<T, kN>(raw, y + i);
      } else {
        const Pack<T, kN> pack = Unpack<T, kN>(raw);
#pragma unroll
        for (int k = 0; k < kN; ++k) y[i + k] = static_cast<float>(pack.value[k]);
      }
    }
  }

  __device__ __forceinline__ void LoadInput(uint32_t input, float (&y)[kV]) {
    VisitChainType(in_.type[input], [&]<class T>() {
      if (!whole_) {
#pragma unroll 1
        for (int k = 0; k < kV; ++k) {
          const uint32_t element = first_ + k * stride_;
          ElementAt(1, k) = element < walk_.elems ? LoadOne<T>(input, element) : 0.0f;
        }
      } else if (walk_.stride[input][0] == 0) {
        Fill(LoadOne<T>(input, first_), y);
      } else {
        LoadPacks(static_cast<const T*>(in_.pointer[input]) + OffsetOf(input, first_), y);
      }
    });
    if (!whole_) ReadSlot(1, y);
  }

  __device__ __forceinline__ void StoreOutput(uint32_t output) {
    if (!whole_) WriteSlot(0, x_);
    VisitChainType(out_.type[output], [&]<class T>() {
      if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
        T* const to = static_cast<T*>(out_.pointer[output]);
        if (whole_) return StorePacks(to + first_);
#pragma unroll 1
        for (int k = 0; k < kV; ++k) {
          const uint32_t element = first_ + k * stride_;
          if (element < walk_.elems) to[element] = FromFloat<T>(ElementAt(0, k));
        }
      }
    });
  }

  template <class T>
  __device__ __forceinline__ void StorePacks(T* to) const {
    constexpr int kN = std::min(kV, PackElems(sizeof(T)));
#pragma unroll
    for (int i = 0; i < kV; i += kN) {
      if constexpr (std::is_same_v<ComputeType<T>, float>) {
        StoreWords<kN>(to + i, PackCompute<T, kN>(x_ + i));
      } else {
        Pack<T, kN> pack;
#pragma unroll
        for (int k = 0; k < kN; ++k) pack.value[k] = FromFloat<T>(x_[i + k]);
        StoreRaw<kN>(to + i, pack);
      }
    }
  }

  // ---- Steps ------------------------------------------------------------------------------------------------------

  static __device__ __forceinline__ void Fill(float number, float (&y)[kV]) {
#pragma unroll
    for (int k = 0; k < kV; ++k) y[k] = number;
  }

  __device__ __forceinline__ void Fetch(const ChainStep& step, float (&y)[kV]) {
    if (step.source() < kMaxChainInputs) return LoadInput(step.source(), y);
    if (step.source() == kChainNumber) return Fill(step.a, y);
    ReadSlot(kWorkSlots + step.source() - kChainSlot, y);
  }

  template <class F>
  __device__ __forceinline__ void Each(F f) {
#pragma unroll
    for (int k = 0; k < kV; ++k) x_[k] = f(x_[k]);
  }
  template <class F>
  __device__ __forceinline__ void Each(const float (&y)[kV], F f) {
#pragma unroll
    for (int k = 0; k < kV; ++k) x_[k] = f(x_[k], y[k]);
  }

  // z: a slot, or one number.
  __device__ __forceinline__ void Select(const ChainStep& step, const float (&y)[kV], bool where) {
    if (step.place() == kNoChainSource) {
      return Each(y, [=](float x, float condition) { return (condition != 0.0f) == where ? x : step.b; });
    }
#pragma unroll
    for (int q = 0; q < kV / 4; ++q) {
      const Quad z = QuadAt(kWorkSlots + step.place(), q);
#pragma unroll
      for (int k = 4 * q; k < 4 * q + 4; ++k) x_[k] = (y[k] != 0.0f) == where ? x_[k] : z.value[k % 4];
    }
  }

  __device__ __forceinline__ void DoOne(const ChainStep& step) {
    const float a = step.a, b = step.b;
    switch (step.code()) {
      case ChainCode::kKeep:
        return WriteSlot(kWorkSlots + step.place(), x_);
      case ChainCode::kStore:
        return StoreOutput(step.place());
      case ChainCode::kClamp:
        return Each([=](float x) { return ChainMin(ChainMax(x, a), b); });
      case ChainCode::kRelu:
        return Each([](float x) { return ChainMax(x, 0.0f); });
      case ChainCode::kLeakyRelu:
        return Each([=](float x) { return x < 0.0f ? a * x : x; });
      case ChainCode::kThresholdedRelu:
        return Each([=](float x) { return x > a ? x : 0.0f; });
      case ChainCode::kSquare:
        return Each([](float x) { return x * x; });
      case ChainCode::kAbs:
        return Each([](float x) { return std::fabs(x); });
      case ChainCode::kNot:
        return Each([](float x) { return x == 0.0f ? 1.0f : 0.0f; });
      case ChainCode::kTruth:
        return Each([](float x) { return x != 0.0f ? 1.0f : 0.0f; });
      case ChainCode::kIsNaN:
        return Each([](float x) { return x != x ? 1.0f : 0.0f; });
      case ChainCode::kFloor:
        return Each([](float x) { return std::floor(x); });
      case ChainCode::kCeil:
        return Each([](float x) { return std::ceil(x); });
      case ChainCode::kRound:
        return Each([](float x) { return std::nearbyint(x); });
      case ChainCode::kSign:
        return Each([](float x) { return x < 0.0f ? -1.0f : x > 0.0f ? 1.0f : x; });
      case ChainCode::kHardSwish:
        return Each([](float x) { return x * ClampTo(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f); });
      case ChainCode::kToHalf:
        return Each([](float x) { return ToFloat(HalfFromFloat(x)); });
      case ChainCode::kToBFloat16:
        return Each([](float x) { return ToFloat(BFloat16FromFloat(x)); });
      default:
        break;
    }
    // What would take too much code, and registers, for all elements side by side.
    WriteSlot(0, x_);
    WithLongFunction(step, [&](auto f) {
#pragma unroll 1
      for (int q = 0; q < kV / 4; ++q) {
        Quad quad = QuadAt(0, q);
#pragma unroll
        for (int k = 0; k < 4; ++k) quad.value[k] = f(quad.value[k]);
        QuadAt(0, q) = quad;
      }
    });
    ReadSlot(0, x_);
  }

  __device__ __forceinline__ void DoTwo(const ChainStep& step, const float (&y)[kV]) {
    switch (step.code()) {
      case ChainCode::kLoad:  // b is 1: for a mere copy ptxas has two sets of registers, and moves all of x in each
                              // step
        return Each(y, [=](float, float loaded) { return step.b * loaded; });
      case ChainCode::kAdd:
        return Each(y, [](float a, float b) { return a + b; });
      case ChainCode::kSubtract:
        return Each(y, [](float a, float b) { return a - b; });
      case ChainCode::kSubtractFrom:
        return Each(y, [](float a, float b) { return b - a; });
      case ChainCode::kMultiply:
        return Each(y, [](float a, float b) { return a * b; });
      case ChainCode::kMaximum:
        return Each(y, [](float a, float b) { return ChainMax(a, b); });
      case ChainCode::kMinimum:
        return Each(y, [](float a, float b) { return ChainMin(a, b); });
      case ChainCode::kLess:
        return Each(y, [](float a, float b) { return a < b ? 1.0f : 0.0f; });
      case ChainCode::kLessOrEqual:
        return Each(y, [](float a, float b) { return a <= b ? 1.0f : 0.0f; });
      case ChainCode::kGreater:
        return Each(y, [](float a, float b) { return a > b ? 1.0f : 0.0f; });
      case ChainCode::kGreaterOrEqual:
        return Each(y, [](float a, float b) { return a >= b ? 1.0f : 0.0f; });
      case ChainCode::kEqual:
        return Each(y, [](float a, float b) { return a == b ? 1.0f : 0.0f; });
      case ChainCode::kAnd:
        return Each(y, [](float a, float b) { return a * b; });
      case ChainCode::kOr:
        return Each(y, [](float a, float b) { return a != 0.0f ? a : b; });
      case ChainCode::kXor:
        return Each(y, [](float a, float b) { return a != b ? 1.0f : 0.0f; });
      case ChainCode::kSelect:
        return Select(step, y, true);
      case ChainCode::kSelectElse:
        return Select(step, y, false);
      default:
        break;
    }
    WriteSlot(0, x_);
    WriteSlot(1, y);
    WithLongFunctionOfTwo(step.code(), [&](auto f) {
#pragma unroll 1
      for (int k = 0; k < kV; ++k) ElementAt(0, k) = f(ElementAt(0, k), ElementAt(1, k));
    });
    ReadSlot(0, x_);
  }

  const ChainInputs& in_;
  const ChainOutputs& out_;
  const Walk<kMaxChainInputs>& walk_;
  Quad* const work_;
  const uint32_t first_, stride_;
  const bool whole_;
  float x_[kV] = {};
};

}  // namespace cudaep::kernels
