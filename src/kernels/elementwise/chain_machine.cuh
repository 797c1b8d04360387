// The machine that does a chain's steps, for the elements of one thread.
//
// A block has a run of elements; a thread's are packs of kPack of them, a block's width of packs apart, so that a warp
// reads and writes without gaps whatever the types are. The accumulator is in registers, which cannot be addressed at
// run time: slots are in shared memory, as are elements on their way into a loop.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "device/async_copy.h"
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
  uint8_t bytes[kMaxChainInputs];  // of an element
};
struct ChainOutputs {
  static constexpr bool kWritesThroughPointers = true;
  void* pointer[kMaxChainOutputs];
  DataType type[kMaxChainOutputs];
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
    case DataType::kInt8:
      return visit.template operator()<int8_t>();
    case DataType::kUint8:
      return visit.template operator()<uint8_t>();
    case DataType::kInt32:
      return visit.template operator()<int32_t>();
    case DataType::kInt64:
      return visit.template operator()<int64_t>();
    default:
      return visit.template operator()<float>();
  }
}

// Of kV elements. A pack lies in one row of every input.
template <int kV, int kPack>
class ChainMachine {
 public:
  __device__ ChainMachine(const ChainInputs& in, const ChainOutputs& out, const Walk<kMaxChainInputs>& walk)
      : in_(in),
        out_(out),
        walk_(walk),
        work_(device::DynamicShared<Quad>() + threadIdx.x),
        first_(blockIdx.x * (kChainThreads * kV) + threadIdx.x * kPack) {}

  __device__ __forceinline__ bool HasElements() const { return first_ < walk_.elems; }

  // Steps wait for their inputs one after the other; those that were not just written come from far away.
  __device__ __forceinline__ void Prefetch() const {
#pragma unroll 1
    for (uint32_t input = 0; input < kMaxChainInputs && in_.pointer[input] != nullptr; ++input) {
      uint32_t offset[kPacks];
      Locate(input, offset);
      device::PrefetchL2(static_cast<const std::byte*>(in_.pointer[input]) + size_t{offset[0]} * in_.bytes[input]);
    }
  }

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
      } else if (step.code() == ChainCode::kLookUp) {
        LookUp(step);
      } else {
        float y[kV];
        Fetch(step, y);
        DoTwo(step, y);
      }
    }
  }

 private:
  static constexpr int kPacks = kV / kPack;
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

  static __device__ __forceinline__ constexpr uint32_t StepOf(int pack) { return pack * (kChainThreads * kPack); }
  __device__ __forceinline__ bool HasPack(int pack) const { return first_ + StepOf(pack) < walk_.elems; }

  // Where packs are in an input; those behind the end are where the first one is, which does no harm.
  __device__ __forceinline__ void Locate(uint32_t input, uint32_t (&offset)[kPacks]) const {
    uint32_t rest[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      rest[i] = HasPack(i) ? first_ + StepOf(i) : first_;
      offset[i] = 0;
    }
#pragma unroll 1
    for (int d = 0; d < walk_.rank; ++d) {
      const uint32_t stride = walk_.stride[input][d];
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        uint32_t coordinate = rest[i];
        if (d + 1 < walk_.rank) rest[i] = walk_.size[d].DivideWithRemainder(coordinate, &coordinate);
        offset[i] += coordinate * stride;
      }
    }
  }

  template <class T>
  static __device__ __forceinline__ void LoadPackOf(const T* from, float* y) {
    const RawPack<T, kPack> raw = LoadRaw<kPack>(from);
    if constexpr (std::is_same_v<ComputeType<T>, float>) {
      UnpackCompute<T, kPack>(raw, y);
    } else {
      const Pack<T, kPack> pack = Unpack<T, kPack>(raw);
#pragma unroll
      for (int k = 0; k < kPack; ++k) y[k] = static_cast<float>(pack.value[k]);
    }
  }

  __device__ __forceinline__ void LoadInput(uint32_t input, float (&y)[kV]) const {
    uint32_t offset[kPacks];
    Locate(input, offset);
    VisitChainType(in_.type[input], [&]<class T>() {
      const T* const from = static_cast<const T*>(in_.pointer[input]);
      if (kPack > 1 && walk_.stride[input][0] == 0) {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
          const auto value = static_cast<float>(Load(from[offset[i]]));
#pragma unroll
          for (int k = 0; k < kPack; ++k) y[i * kPack + k] = value;
        }
      } else {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) LoadPackOf(from + offset[i], y + i * kPack);
      }
    });
  }

  template <class T>
  static __device__ __forceinline__ T Whole(float x) {
    if constexpr (std::is_same_v<T, bool>) return x != 0.0f;
    return static_cast<T>(std::bit_cast<int32_t>(x + kWholeBits));
  }

  __device__ __forceinline__ void StoreOutput(uint32_t output) const {
    VisitChainType(out_.type[output], [&]<class T>() {
      if constexpr (!std::is_integral_v<T> || sizeof(T) == 1) {
        T* const to = static_cast<T*>(out_.pointer[output]) + first_;
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
          if (!HasPack(i)) continue;
          if constexpr (std::is_same_v<ComputeType<T>, float>) {
            StoreWords<kPack>(to + StepOf(i), PackCompute<T, kPack>(x_ + i * kPack));
          } else {
            Pack<T, kPack> pack;
#pragma unroll
            for (int k = 0; k < kPack; ++k) pack.value[k] = Whole<T>(x_[i * kPack + k]);
            StoreRaw<kPack>(to + StepOf(i), pack);
          }
        }
      }
    });
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

  __device__ __forceinline__ void LookUp(const ChainStep& step) {
    const auto* const table = static_cast<const uint8_t*>(in_.pointer[step.source()]);
    const int32_t sign = in_.type[step.source()] == DataType::kInt8 ? 128 : 0;
    const auto first = std::bit_cast<uint32_t>(step.a + kWholeBits);
    Each([=](float x) {
      const uint32_t place = std::bit_cast<uint32_t>(x + kWholeBits) - first;
      return SmallDifference(table[place % kChainTableSize] ^ sign, sign);
    });
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
      case ChainCode::kQuantize:
        return Each(ChainQuantizer(a, b));
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
  const uint32_t first_;
  float x_[kV] = {};
};

}  // namespace cudaep::kernels
