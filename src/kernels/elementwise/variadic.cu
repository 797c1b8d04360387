#include "core/data_type_traits.h"
#include "kernels/common/raw_pack.cuh"
#include "kernels/elementwise/elementwise.cuh"
#include "kernels/elementwise/functor_math.cuh"
#include "kernels/elementwise/variadic.h"

namespace cudaep::kernels {
namespace {

constexpr int kInputsInFlight = 4;

struct MaxFold {
  template <class C>
  static __device__ __forceinline__ C Combine(C a, C b) {
    return MaxOf(a, b);
  }
};
struct MinFold {
  template <class C>
  static __device__ __forceinline__ C Combine(C a, C b) {
    return MinOf(a, b);
  }
};
struct SumFold {
  template <class C>
  static __device__ __forceinline__ C Combine(C a, C b) {
    return a + b;
  }
};

struct VariadicWalk {
  uint32_t elems, packs;  // whole packs
  int32_t rank, count;
  FastDivider size[kMaxBroadcastRank];
  uint32_t stride[kMaxBroadcastRank][kMaxVariadicInputs];
  const void* input[kMaxVariadicInputs];
};

// Calls visit(input, its offset) for inputs [first, first + kInputsInFlight) that there are.
template <class Visit>
__device__ __forceinline__ void Locate(const VariadicWalk& walk, uint32_t element, int first, Visit&& visit) {
  uint32_t offset[kInputsInFlight] = {}, rest = element;
  for (int d = 0; d < walk.rank; ++d) {
    uint32_t coordinate = rest;
    if (d + 1 < walk.rank) rest = walk.size[d].DivideWithRemainder(coordinate, &coordinate);
#pragma unroll
    for (int i = 0; i < kInputsInFlight; ++i) offset[i] += coordinate * walk.stride[d][first + i];
  }
#pragma unroll
  for (int i = 0; i < kInputsInFlight; ++i) {
    if (first + i < walk.count) visit(i, offset[i]);
  }
}

template <class C>
struct RunningResult {
  static constexpr bool kWritesThroughPointers = true;
  C* pointer;
  bool resumes, pauses;
};

// The result for kPack elements from `element` on.
template <int kPack, class Fold, class T>
__device__ __forceinline__ void Combine(const VariadicWalk& walk, uint32_t element, ComputeType<T> factor,
                                        const RunningResult<ComputeType<T>>& running, T* y) {
  using C = ComputeType<T>;
  C result[kPack] = {};
  if (running.resumes) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) result[k] = running.pointer[element + k];
  }
#pragma unroll 1
  for (int first = 0; first < walk.count; first += kInputsInFlight) {
    RawPack<T, kPack> raw[kInputsInFlight];
    Locate(walk, element, first, [&](int i, uint32_t offset) {
      const T* const from = static_cast<const T*>(walk.input[first + i]) + offset;
      if (kPack == 1 || walk.stride[0][first + i] != 0) {
        raw[i] = LoadRaw<kPack>(from);
      } else {
        Pack<T, kPack> pack;
        const T value = *from;
#pragma unroll
        for (int k = 0; k < kPack; ++k) pack.value[k] = value;
        raw[i] = std::bit_cast<RawPack<T, kPack>>(pack);
      }
    });
#pragma unroll
    for (int i = 0; i < kInputsInFlight; ++i) {
      if (first + i >= walk.count) break;
      C value[kPack];
      UnpackCompute<T, kPack>(raw[i], value);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        result[k] = first + i == 0 && !running.resumes ? value[k] : Fold::Combine(result[k], value[k]);
      }
    }
  }
  if (running.pauses) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) running.pointer[element + k] = result[k];
    return;
  }
  if constexpr (std::is_same_v<Fold, SumFold>) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) result[k] *= factor;
  }
  StoreWords<kPack>(y + element, PackCompute<T, kPack>(result));
}

template <int kPack, class Fold, class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    VariadicKernelOf(const __grid_constant__ VariadicWalk walk, ComputeType<T> factor,
                     RunningResult<ComputeType<T>> running, T* y) {
  TriggerDependentsOfSmallGrid();
  device::GridDependencyWait();
  const uint32_t item = blockIdx.x * kElementwiseThreads + threadIdx.x;
  if (item < walk.packs) {
    Combine<kPack, Fold>(walk, item * kPack, factor, running, y);
  } else if constexpr (kPack > 1) {  // behind the packs: single elements
    const uint32_t element = walk.packs * (kPack - 1) + item;
    if (element < walk.elems) Combine<1, Fold>(walk, element, factor, running, y);
  }
}

template <class Fold, class T>
Status LaunchFold(const VariadicArgs& args, device::Stream stream) {
  const auto& b = *args.broadcast;
  if (b.elems == 0) return Status::Ok();
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  if (b.elems > std::min(kSliceElems, index_limit)) {
    const BroadcastHalves<kMaxVariadicInputs> halves = SplitBroadcast(b);
    const void* rest[kMaxVariadicInputs];
    for (int i = 0; i < args.count; ++i) {
      rest[i] = static_cast<const std::byte*>(args.inputs[i]) + halves.skip[i] * kBytes;
    }
    VariadicArgs half = args;
    half.broadcast = &halves.first;
    CUDAEP_RETURN_IF_ERROR((LaunchFold<Fold, T>(half, stream)));
    half.inputs = rest;
    half.broadcast = &halves.second;
    half.y = static_cast<T*>(args.y) + halves.first.elems;
    if (half.running != nullptr) half.running = static_cast<ComputeType<T>*>(half.running) + halves.first.elems;
    return LaunchFold<Fold, T>(half, stream);
  }
  constexpr int kPack = PackElems(sizeof(T)) > kMaxElementwisePack ? kMaxElementwisePack : PackElems(sizeof(T));
  VariadicWalk walk{};
  walk.elems = static_cast<uint32_t>(b.elems);
  walk.rank = b.rank;
  walk.count = args.count;
  bool packed = (b.rank == 1 || b.size[0] % kPack == 0) && IsAligned(args.y, kPack * sizeof(T));
  for (int i = 0; i < args.count; ++i) {
    walk.input[i] = args.inputs[i];
    packed = packed && (b.stride[i][0] == 0 || IsAligned(args.inputs[i], kPack * sizeof(T)));
    for (int d = 0; d < b.rank; ++d) walk.stride[d][i] = static_cast<uint32_t>(b.stride[i][d]);
  }
  for (int d = 0; d < b.rank; ++d) walk.size[d] = FastDivider(static_cast<uint32_t>(b.size[d]));
  walk.packs = packed ? walk.elems / kPack : 0;
  const uint32_t items = walk.packs + (walk.elems - walk.packs * kPack);
  device::LaunchConfig config;
  config.grid.x = CeilDiv<uint32_t>(items, kElementwiseThreads);
  config.block.x = kElementwiseThreads;
  config.programmatic = true;
  using C = ComputeType<T>;
  return device::Launch(VariadicKernelOf<kPack, Fold, T>, config, stream, walk, static_cast<C>(args.factor),
                        RunningResult<C>{static_cast<C*>(args.running), args.resumes, args.pauses},
                        static_cast<T*>(args.y));
}

template <class Fold, DataTypeSet types>
VariadicKernel FindFold(DataType type) {
  return VisitType<types, VariadicKernel>(type, nullptr, [&]<class T>() { return &LaunchFold<Fold, T>; });
}

}  // namespace

VariadicKernel FindVariadicKernel(VariadicOp op, DataType type) {
  switch (op) {
    case VariadicOp::kMax:
      return FindFold<MaxFold, kNumericTypes>(type);
    case VariadicOp::kMin:
      return FindFold<MinFold, kNumericTypes>(type);
    default:
      return FindFold<SumFold, kFloatTypes>(type);
  }
}

}  // namespace cudaep::kernels
