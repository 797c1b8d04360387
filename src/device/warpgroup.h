// Products of warpgroups, four warps each, by tensor cores that read B, and A where it is not in registers, from shared
// memory (wgmma), and the copies that bring these: one PTX instruction each. Devices of 9.0 alone; the file is compiled
// for 9.0a.
//
//   D[64 x N] += A[64 x K] * B[N x K]^T, A and B from boxes (device/tensor_map.h), K = 16 for fp16 and bf16 (fp32
//   sums), 32 for int8 (int32 sums, which may wrap): 32 bytes
//   D[64 x 64] += A[64 x 16] * B[16 x 64], fp16 and bf16, A from registers, B a box's rows
//
// A thread has of D, for i from 0 on: row 16 * (warp of the group) + lane / 4 + i / 2 % 2 * 8, column i / 4 * 8 + lane
// % 4 * 2 + i % 2.
//
// The products of a group run beside it: it asks for some between WarpgroupBegin and WarpgroupCommit, and may touch D,
// and others the boxes, after WarpgroupWait. On the simulated device they are computed when a warp has asked.
//
// Elsewhere these are: a box the tile of a TMA copy with a swizzle of 128 bytes, steps along its columns the k of
// wgmma.
#pragma once

#include <cstring>
#include <type_traits>

#include "device/async_copy.h"
#include "device/tensor_core.h"
#include "device/tensor_map.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "a file with products of warpgroups is HOPPER in its layer's CMakeLists"
#endif

namespace cudaep::device {

inline constexpr int kWarpgroupThreads = 128, kWarpgroupRows = 64;
inline constexpr int kWarpgroupDepthBytes = 32;  // K of a product

template <class T>
using WarpgroupSum = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;

// Copies the box that begins at `column` and `row`. All of its bytes, zeros too, count at `barrier`, where an arrival
// announced them. One thread asks for it; `map` is the kernel's argument, made with the same kSideBySide.
template <int kSideBySide = 2>
__device__ __forceinline__ void CopyBox([[maybe_unused]] void* shared, [[maybe_unused]] const TensorMap& map,
                                        [[maybe_unused]] int column, [[maybe_unused]] int row,
                                        [[maybe_unused]] CopyBarrier* barrier) {
#if defined(CUDAEP_SIMULATED_DEVICE)
  auto& block = sim::BlockExecutor::Get();
  const auto* const matrix = reinterpret_cast<const std::byte*>(map.word[0]);
  const auto rows = static_cast<int64_t>(map.word[1]), columns = static_cast<int64_t>(map.word[2]);
  if (reinterpret_cast<uintptr_t>(shared) % kBoxAlignment != 0) block.Fail("a box that is not aligned to 1024 bytes");
  if (map.word[4] != kSideBySide || (kSideBySide != 2 && row % (4 * kSideBySide) != 0)) {
    block.Fail("a box in another order of rows than its map");
  }
  constexpr uint64_t kZeros[2] = {};
  for (int r = 0; r < static_cast<int>(map.word[3]); ++r) {
    for (int piece = 0; piece < 8; ++piece) {
      std::byte* const to = static_cast<std::byte*>(shared) + BoxPieceOffset(r, piece);
      const int64_t at_row = int64_t{row} + BoxRow<kSideBySide>(r), at_column = int64_t{column} + piece * 8;
      if (at_row >= 0 && at_row < rows && at_column >= 0 && at_column < columns) {
        block.BulkCopy(to, matrix + (at_row * columns + at_column) * 2, 16, &barrier->state);
      } else {
        block.BulkStore(to, kZeros, &barrier->state);
      }
    }
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (kSideBySide != 2) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %3, %3, %4}], [%5];" ::"r"(detail::SharedAddress(shared)),
        "l"(&map), "r"(column), "r"(0), "r"(row / (4 * kSideBySide)), "r"(detail::SharedAddress(barrier))
        : "memory");
    return;
  }
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(detail::SharedAddress(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(detail::SharedAddress(barrier))
      : "memory");
#endif
}

// Boxes' memory in some that is aligned to 16 bytes and has kBoxSlack more.
inline constexpr size_t kBoxSlack = kBoxAlignment - 16;
template <class Byte>
__device__ __forceinline__ Byte* AlignBoxes(Byte* shared) {
  const auto misplaced = reinterpret_cast<uintptr_t>(shared) % kBoxAlignment;
  return shared + (misplaced == 0 ? 0 : kBoxAlignment - misplaced);
}

// A part of a box that products read.
struct BoxPart {
  uint64_t bits = 0;                 // a descriptor
  const std::byte* first = nullptr;  // of the simulated device: its first row, and the step along the rows
  int step = 0;

  // From the row `row` on, a multiple of 8.
  static __device__ __forceinline__ BoxPart Of(const void* box, int row = 0) {
    const auto* const first = static_cast<const std::byte*>(box) + row * kBoxRowBytes;
#if defined(CUDAEP_SIMULATED_DEVICE)
    return {.first = first};
#else
    // Address, bytes from eight rows to the next eight, and that pieces are exchanged: in units of 16 bytes.
    constexpr uint64_t kEightRows = 8 * kBoxRowBytes / 16, kExchanged = uint64_t{1} << 62;
    return {.bits = (detail::SharedAddress(first) & 0x3ffff) / 16 | uint64_t{1} << 16 | kEightRows << 32 | kExchanged};
#endif
  }
  // The next K columns for each step.
  __device__ __forceinline__ BoxPart At(int steps) const { return {Moved(steps * kWarpgroupDepthBytes), first, steps}; }
  // The same part of a box that lies so many bytes behind.
  __device__ __forceinline__ BoxPart Behind(int bytes) const { return {Moved(bytes), first + bytes, step}; }
#if defined(CUDAEP_SIMULATED_DEVICE)
  template <class T>
  WarpgroupSum<T> Element(int row, int k) const {
    const int byte = step * kWarpgroupDepthBytes + k * static_cast<int>(sizeof(T));
    T value;
    std::memcpy(&value, first + BoxPieceOffset(row, byte / 16) + byte % 16, sizeof(value));
    if constexpr (std::is_same_v<T, int8_t>) {
      return value;
    } else {
      return ToFloat(value);
    }
  }
#endif

 private:
  // The address is the lowest bits, and shared memory is smaller.
  __device__ __forceinline__ uint64_t Moved(int bytes) const {
    const auto low = static_cast<uint32_t>(bits) + static_cast<uint32_t>(bytes) / 16;
    return (bits & 0xffffffff00000000) | low;
  }
};

__device__ __forceinline__ void WarpgroupBegin() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void WarpgroupCommit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Returns when all but the last kPending that were committed are done. The compiler may move what reads D alone in
// front of it: WarpgroupSettle keeps that behind.
template <int kPending>
__device__ __forceinline__ void WarpgroupWait() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}

// What reads D alone comes behind what is in front of this, a wait.
template <class Sum, int kCount>
__device__ __forceinline__ void WarpgroupSettle([[maybe_unused]] Sum (&d)[kCount]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<Sum, float>) {
      asm volatile("" : "+f"(d[i])::"memory");
    } else {
      asm volatile("" : "+r"(d[i])::"memory");
    }
  }
#endif
}
// What the calling thread has stored and copied to shared memory, products after a barrier see.
__device__ __forceinline__ void WarpgroupSeesStores() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// From here on each thread of the group has so many registers, a multiple of 8 from 24 to 240: fewer (setmaxnreg.dec),
// or more (setmaxnreg.inc), which waits until others have given up as many. By all warps of the group.
template <int kRegisters>
__device__ __forceinline__ void KeepRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void TakeRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

#define CUDAEP_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CUDAEP_SUMS_8(i) CUDAEP_SUMS_4(i), CUDAEP_SUMS_4(i + 4)
#define CUDAEP_SUMS_32(i) CUDAEP_SUMS_8(i), CUDAEP_SUMS_8(i + 8), CUDAEP_SUMS_8(i + 16), CUDAEP_SUMS_8(i + 24)
#define CUDAEP_NAMES_32                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "           \
  "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define CUDAEP_NAMES_64                                          \
  CUDAEP_NAMES_32                                                \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43" \
  ", %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CUDAEP_NAMES_80 \
  CUDAEP_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define CUDAEP_NAMES_96 \
  CUDAEP_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CUDAEP_WHOLE_SUMS_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define CUDAEP_WHOLE_SUMS_8(i) CUDAEP_WHOLE_SUMS_4(i), CUDAEP_WHOLE_SUMS_4(i + 4)
#define CUDAEP_WHOLE_SUMS_32(i) \
  CUDAEP_WHOLE_SUMS_8(i), CUDAEP_WHOLE_SUMS_8(i + 8), CUDAEP_WHOLE_SUMS_8(i + 16), CUDAEP_WHOLE_SUMS_8(i + 24)
// The predicate says whether d is added to.
#define CUDAEP_WARPGROUP_MMA(columns, type, names, a, b, add)                                                     \
  "{ .reg .pred p; setp.ne.b32 p, " add ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type \
  " {" names "}, " a ", " b ", p, 1, 1, 0, 0; }"

#define CUDAEP_WARPGROUP_MMA_INT8(columns, names, a, b, add)                                                     \
  "{ .reg .pred p; setp.ne.b32 p, " add ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k32.s32.s8.s8 {" names \
  "}, " a ", " b ", p; }"

// With A in four words a thread, and B transposed.
#define CUDAEP_WARPGROUP_MMA_TRANSPOSED(type)                                                        \
  "{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type \
  " {" CUDAEP_NAMES_32 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"

#if defined(CUDAEP_SIMULATED_DEVICE)
namespace sim {

// What a thread brings to its warp's 16 rows of D: A from registers, or the 16 rows from `row` on of a box.
template <class T>
struct WarpgroupOperand {
  const FragmentA<T>* fragment;
  BoxPart a;
  int row;
  BoxPart b;
  WarpgroupSum<T>* d;
  bool adds;
};

// The last lane to come computes for all 32, in the order of k.
template <class T, int kColumns, bool kTransposedB>
void ComputeWarpgroup(void* const* operands) {
  constexpr int kDepth = kWarpgroupDepthBytes / static_cast<int>(sizeof(T));
  using Sum = WarpgroupSum<T>;
  using Element = std::conditional_t<std::is_integral_v<Sum>, int16_t, float>;
  const auto of = [&](int lane) -> const WarpgroupOperand<T>& {
    return *static_cast<const WarpgroupOperand<T>*>(operands[lane]);
  };
  const auto row_of = [](int lane, int i) { return MmaRow(lane, i % 4); };
  const auto column_of = [](int lane, int i) { return i / 4 * 8 + MmaColumn(lane, i); };
  Element a[16][kDepth], b[kDepth][kColumns];
  if constexpr (kTransposedB) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        T element;
        std::memcpy(&element, reinterpret_cast<const T*>(of(lane).fragment->word) + i, sizeof(T));
        a[row_of(lane, i)][column_of(lane, i)] = ToFloat(element);
      }
    }
  } else {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < kDepth; ++k)
        a[row][k] = static_cast<Element>(of(0).a.template Element<T>(of(0).row + row, k));
    }
  }
  for (int column = 0; column < kColumns; ++column) {
    for (int k = 0; k < kDepth; ++k) {
      const auto element =
          kTransposedB ? of(0).b.template Element<T>(k, column) : of(0).b.template Element<T>(column, k);
      b[k][column] = static_cast<Element>(element);
    }
  }
  Sum sums[16][kColumns] = {};
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < kColumns; ++column) sums[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < kColumns / 2; ++i) {
      const Sum sum = sums[row_of(lane, i)][column_of(lane, i)];
      Sum& d = of(lane).d[i];
      if (!of(lane).adds) {
        d = sum;
      } else if constexpr (std::is_integral_v<Sum>) {
        d = static_cast<Sum>(static_cast<uint32_t>(d) + static_cast<uint32_t>(sum));
      } else {
        d += sum;
      }
    }
  }
}

}  // namespace sim
#endif

// By all threads of the group; kColumns (N) is 64, 128, 160 (16 bits) or 192. Not `adds`: d is overwritten.
template <class T, int kColumns>
__device__ __forceinline__ void WarpgroupMma([[maybe_unused]] WarpgroupSum<T> (&d)[kColumns / 2],
                                             [[maybe_unused]] const BoxPart& a, [[maybe_unused]] const BoxPart& b,
                                             [[maybe_unused]] bool adds) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, int8_t>);
  static_assert(kColumns == 64 || kColumns == 128 || kColumns == 192 || (kColumns == 160 && sizeof(T) == 2));
#if defined(CUDAEP_SIMULATED_DEVICE)
  const int row = static_cast<int>(threadIdx.x) % kWarpgroupThreads / 32 * 16;
  sim::WarpgroupOperand<T> operand{nullptr, a, row, b, d, adds};
  sim::BlockExecutor::Get().ComputeInWarp(&sim::ComputeWarpgroup<T, kColumns, false>, &operand);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kColumns == 64 && std::is_same_v<T, int8_t>) {
    asm volatile(CUDAEP_WARPGROUP_MMA_INT8("64", CUDAEP_NAMES_32, "%32", "%33", "%34")
                 : CUDAEP_WHOLE_SUMS_32(0)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 64 && std::is_same_v<T, Half>) {
    asm volatile(CUDAEP_WARPGROUP_MMA("64", "f16", CUDAEP_NAMES_32, "%32", "%33", "%34")
                 : CUDAEP_SUMS_32(0)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 64) {
    asm volatile(CUDAEP_WARPGROUP_MMA("64", "bf16", CUDAEP_NAMES_32, "%32", "%33", "%34")
                 : CUDAEP_SUMS_32(0)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 128 && std::is_same_v<T, int8_t>) {
    asm volatile(CUDAEP_WARPGROUP_MMA_INT8("128", CUDAEP_NAMES_64, "%64", "%65", "%66")
                 : CUDAEP_WHOLE_SUMS_32(0), CUDAEP_WHOLE_SUMS_32(32)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (std::is_same_v<T, int8_t>) {
    asm volatile(CUDAEP_WARPGROUP_MMA_INT8("192", CUDAEP_NAMES_96, "%96", "%97", "%98")
                 : CUDAEP_WHOLE_SUMS_32(0), CUDAEP_WHOLE_SUMS_32(32), CUDAEP_WHOLE_SUMS_32(64)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 128 && std::is_same_v<T, Half>) {
    asm volatile(CUDAEP_WARPGROUP_MMA("128", "f16", CUDAEP_NAMES_64, "%64", "%65", "%66")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 128) {
    asm volatile(CUDAEP_WARPGROUP_MMA("128", "bf16", CUDAEP_NAMES_64, "%64", "%65", "%66")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 160 && std::is_same_v<T, Half>) {
    asm volatile(CUDAEP_WARPGROUP_MMA("160", "f16", CUDAEP_NAMES_80, "%80", "%81", "%82")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32), CUDAEP_SUMS_8(64), CUDAEP_SUMS_8(72)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 160) {
    asm volatile(CUDAEP_WARPGROUP_MMA("160", "bf16", CUDAEP_NAMES_80, "%80", "%81", "%82")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32), CUDAEP_SUMS_8(64), CUDAEP_SUMS_8(72)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else if constexpr (std::is_same_v<T, Half>) {
    asm volatile(CUDAEP_WARPGROUP_MMA("192", "f16", CUDAEP_NAMES_96, "%96", "%97", "%98")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32), CUDAEP_SUMS_32(64)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  } else {
    asm volatile(CUDAEP_WARPGROUP_MMA("192", "bf16", CUDAEP_NAMES_96, "%96", "%97", "%98")
                 : CUDAEP_SUMS_32(0), CUDAEP_SUMS_32(32), CUDAEP_SUMS_32(64)
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(adds)));
  }
#endif
}

// d[64 x 64] += a[64 x 16] * b[16 x 64], b 16 rows of a box. A warp's part of `a` is its 16 rows of D, in the words of
// mma.sync (tensor_core.h); they stay as they are until WarpgroupWait. Not `adds`: d is overwritten.
template <class T>
__device__ __forceinline__ void WarpgroupMma([[maybe_unused]] float (&d)[32], [[maybe_unused]] const FragmentA<T>& a,
                                             [[maybe_unused]] const BoxPart& b, [[maybe_unused]] bool adds) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::WarpgroupOperand<T> operand{&a, {}, 0, b, d, adds};
  sim::BlockExecutor::Get().ComputeInWarp(&sim::ComputeWarpgroup<T, 64, true>, &operand);
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (std::is_same_v<T, Half>) {
    asm volatile(CUDAEP_WARPGROUP_MMA_TRANSPOSED("f16")
                 : CUDAEP_SUMS_32(0)
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.bits),
                   "r"(static_cast<int>(adds)));
  } else {
    asm volatile(CUDAEP_WARPGROUP_MMA_TRANSPOSED("bf16")
                 : CUDAEP_SUMS_32(0)
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.bits),
                   "r"(static_cast<int>(adds)));
  }
#endif
}
#undef CUDAEP_WARPGROUP_MMA_TRANSPOSED
#undef CUDAEP_WARPGROUP_MMA_INT8
#undef CUDAEP_WARPGROUP_MMA
#undef CUDAEP_WHOLE_SUMS_32
#undef CUDAEP_WHOLE_SUMS_8
#undef CUDAEP_WHOLE_SUMS_4
#undef CUDAEP_NAMES_96
#undef CUDAEP_NAMES_80
#undef CUDAEP_NAMES_64
#undef CUDAEP_NAMES_32
#undef CUDAEP_SUMS_32
#undef CUDAEP_SUMS_8
#undef CUDAEP_SUMS_4

}  // namespace cudaep::device
