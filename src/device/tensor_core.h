// Tensor-core products and the loads that feed them: one PTX instruction each, for a whole warp.
//
//   D[16 x 8] = A[16 x K] * B[K x 8] + D, K = 8 for TF32 and 16 for 16-bit floats (fp32 sums), 32 for 8-bit integers
//   (int32 sums).
//
// A fragment is what one lane holds: 32-bit words of 1, 2 or 4 neighbours along K, in the places that PTX gives
// mma.sync (g = lane / 4, t = lane % 4, p = elements of a word):
//   A: words of rows g, g + 8, g, g + 8 and elements p * t, p * t, p * (t + 4), p * (t + 4) on
//   B: words of column g, elements p * t and p * (t + 4) on
//   D: rows g, g, g + 8, g + 8 and columns 2 * t, 2 * t + 1, 2 * t, 2 * t + 1
//
// On the simulated device the last lane to come computes for all 32. Devices: fp16 from 7.5 on, the others from 8.0 on
// (kHasMma); planners ask DeviceInfo, a kernel on an older device traps.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "device/launch.h"

namespace cudaep::device {

template <class T>
inline constexpr bool kHasMma = kTargetArch >= (std::is_same_v<T, Half> ? 750 : 800);

// K of the product: 32 bytes of it.
template <class T>
inline constexpr int kMmaDepth = 32 / static_cast<int>(sizeof(T));

template <class T>
struct FragmentA {
  uint32_t word[4];
};
template <class T>
struct FragmentB {
  uint32_t word[2];
};
template <class Sum>  // float or int32_t
struct FragmentD {
  Sum value[4];
};

// Row and column in D of a lane's value i; what epilogues add to and store.
__device__ __forceinline__ int MmaRow(int lane, int i) { return lane / 4 + i / 2 * 8; }
__device__ __forceinline__ int MmaColumn(int lane, int i) { return lane % 4 * 2 + i % 2; }

#if defined(CUDAEP_SIMULATED_DEVICE)
namespace sim {

template <class A, class B, class Sum>
struct MmaOperand {
  const FragmentA<A>* a;
  const FragmentB<B>* b;
  FragmentD<Sum>* d;
};

// A row of 8 words as it is multiplied. Whole numbers take 16 bits, of which the compiler multiplies and adds pairs.
template <class T, class Element>
void UnpackMmaRow(const uint32_t (&words)[8], Element (&row)[kMmaDepth<T>]) {
  std::array<T, kMmaDepth<T>> raw;
  std::memcpy(raw.data(), words, sizeof(words));
  for (int k = 0; k < kMmaDepth<T>; ++k) {
    if constexpr (sizeof(T) == 4) {
      row[k] = std::bit_cast<float>(std::bit_cast<uint32_t>(raw[k]) & ~0x1fffu);
    } else if constexpr (sizeof(T) == 2) {
      row[k] = ToFloat(raw[k]);
    } else {
      row[k] = raw[k];
    }
  }
}

template <class A, class B, class Sum>
void ComputeMma(void* const* operands) {
  constexpr int kDepth = kMmaDepth<A>;
  using Element = std::conditional_t<std::is_integral_v<Sum>, int16_t, float>;
  uint32_t a_words[16][8], b_words[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand<A, B, Sum>*>(operands[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int word = 0; word < 4; ++word) a_words[g + word % 2 * 8][t + word / 2 * 4] = operand.a->word[word];
    for (int word = 0; word < 2; ++word) b_words[g][t + word * 4] = operand.b->word[word];
  }
  Element a[16][kDepth], b[8][kDepth];
  for (int row = 0; row < 16; ++row) UnpackMmaRow<A>(a_words[row], a[row]);
  for (int column = 0; column < 8; ++column) UnpackMmaRow<B>(b_words[column], b[column]);

  Sum sums[16][8] = {};
  if constexpr (std::is_integral_v<Sum>) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        Sum sum = 0;
        for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[column][k];
        sums[row][column] = sum;
      }
    }
  } else {
    Element b_rows[kDepth][8];
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < 8; ++column) b_rows[k][column] = b[column][k];
    }
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < kDepth; ++k) {
        for (int column = 0; column < 8; ++column) sums[row][column] += a[row][k] * b_rows[k][column];
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& operand = *static_cast<const MmaOperand<A, B, Sum>*>(operands[lane]);
    for (int i = 0; i < 4; ++i) {
      Sum& value = operand.d->value[i];
      const Sum sum = sums[MmaRow(lane, i)][MmaColumn(lane, i)];
      if constexpr (std::is_integral_v<Sum>) {
        value = static_cast<Sum>(static_cast<uint32_t>(value) + static_cast<uint32_t>(sum));
      } else {
        value += sum;
      }
    }
  }
}

struct MatrixRows {
  const void* row;
  uint32_t* word;
};

template <int kCount, bool kTransposed>
void LoadMatrices(void* const* operands) {
  for (int matrix = 0; matrix < kCount; ++matrix) {
    uint16_t element[8][8];
    for (int row = 0; row < 8; ++row) {
      std::memcpy(element[row], static_cast<const MatrixRows*>(operands[matrix * 8 + row])->row, sizeof(element[row]));
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4 * 2;
      const uint32_t low = kTransposed ? element[t][g] : element[g][t];
      const uint32_t high = kTransposed ? element[t + 1][g] : element[g][t + 1];
      static_cast<const MatrixRows*>(operands[lane])->word[matrix] = low | high << 16;
    }
  }
}

}  // namespace sim
#endif

// The word of a fragment of float: rounded to TF32, ties away from zero. Mma leaves out the bits that TF32 has not, so
// words that were not rounded are cut.
__device__ __forceinline__ uint32_t Tf32Word(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
#else
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffe000u;  // NaN
  return magnitude == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
#endif
}

// d += a * b, by all 32 lanes. fp16, bf16 and float (TF32) with fp32 sums.
template <class T>
__device__ __forceinline__ void Mma([[maybe_unused]] FragmentD<float>& d, [[maybe_unused]] const FragmentA<T>& a,
                                    [[maybe_unused]] const FragmentB<T>& b) {
  static_assert(std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float>);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::MmaOperand<T, T, float> operand{&a, &b, &d};
  sim::BlockExecutor::Get().ComputeInWarp(&sim::ComputeMma<T, T, float>, &operand);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, Half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  } else if constexpr (std::is_same_v<T, float>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  if constexpr (std::is_same_v<T, Half>) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
          : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
          : "r"(a.word[2 * half]), "r"(a.word[2 * half + 1]), "r"(b.word[half]));
    }
  } else {
    __trap();
  }
#elif defined(__CUDA_ARCH__)
  __trap();
#endif
}

// Signed and unsigned bytes in any combination with int32 sums, which wrap around.
template <class A, class B>
__device__ __forceinline__ void Mma([[maybe_unused]] FragmentD<int32_t>& d, [[maybe_unused]] const FragmentA<A>& a,
                                    [[maybe_unused]] const FragmentB<B>& b) {
  static_assert(sizeof(A) == 1 && sizeof(B) == 1 && std::is_integral_v<A> && std::is_integral_v<B>);
#if defined(CUDAEP_SIMULATED_DEVICE)
  sim::MmaOperand<A, B, int32_t> operand{&a, &b, &d};
  sim::BlockExecutor::Get().ComputeInWarp(&sim::ComputeMma<A, B, int32_t>, &operand);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define CUDAEP_MMA_BYTES(type_a, type_b)                                       \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." type_a "." type_b               \
      ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "                              \
      "{%8, %9}, {%0, %1, %2, %3};"                                            \
      : "+r"(d.value[0]), "+r"(d.value[1]), "+r"(d.value[2]), "+r"(d.value[3]) \
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]))
  if constexpr (std::is_signed_v<A> && std::is_signed_v<B>) {
    CUDAEP_MMA_BYTES("s8", "s8");
  } else if constexpr (std::is_signed_v<A>) {
    CUDAEP_MMA_BYTES("s8", "u8");
  } else if constexpr (std::is_signed_v<B>) {
    CUDAEP_MMA_BYTES("u8", "s8");
  } else {
    CUDAEP_MMA_BYTES("u8", "u8");
  }
#undef CUDAEP_MMA_BYTES
#elif defined(__CUDA_ARCH__)
  __trap();
#endif
}

// Loads kCount (1, 2 or 4) matrices of 8 x 8 16-bit elements from shared memory, by all 32 lanes. Lane 8 * m + r gives
// the address, aligned to 16, of row r of matrix m; those of lanes from 8 * kCount on are not used. Each lane gets
// elements 2 * t and 2 * t + 1 of row g of each matrix (of its transpose with kTransposed): an operand of Mma.
template <int kCount, bool kTransposed = false>
__device__ __forceinline__ void LoadMatrix([[maybe_unused]] uint32_t (&word)[kCount],
                                           [[maybe_unused]] const void* row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
#if defined(CUDAEP_SIMULATED_DEVICE)
  auto& block = sim::BlockExecutor::Get();
  if (block.lane() < 8 * kCount && reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    block.Fail("a matrix row that is not aligned to 16 bytes");
  }
  sim::MatrixRows operand{row, word};
  block.ComputeInWarp(&sim::LoadMatrices<kCount, kTransposed>, &operand);
#elif defined(__CUDA_ARCH__)
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (kCount == 1 && !kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(word[0]) : "r"(from) : "memory");
  } else if constexpr (kCount == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(word[0]) : "r"(from) : "memory");
  } else if constexpr (kCount == 2 && !kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(word[0]), "=r"(word[1])
                 : "r"(from)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(word[0]), "=r"(word[1])
                 : "r"(from)
                 : "memory");
  } else if constexpr (!kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
  }
#endif
}

}  // namespace cudaep::device
