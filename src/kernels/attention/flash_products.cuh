// The two products of attention for a warp's 16 rows: q k^T and weights v, by tensor cores or one multiplication at a
// time. Both keep sums where device/tensor_core.h has those of mma.sync: lane 4 g + t has rows g and g + 8 and, of
// every 8 columns, 2 t and 2 t + 1.
#pragma once

#include "device/tensor_core.h"
#include "kernels/attention/flash.h"
#include "kernels/common/raw_pack.cuh"

namespace cudaep::kernels {

template <class T>
struct TensorCoreProducts {
  using Element = T;
  using Sum = float;
  static constexpr int kKeys = TileKeys(AttentionKernel::kTensorCores);
  static constexpr bool kWeightsInShared = false;

  // s[16, kKeys] += q[16, depth] * k[kKeys, depth]^T. Rows of shared memory; depth is whole 16.
  static __device__ __forceinline__ void Scores(device::FragmentD<Sum> (&s)[kKeys / 8], const T* q, int q_stride,
                                                const T* k, int k_stride, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    q += lane % 16 * q_stride + lane / 16 * 8;
    k += (lane % 8 + lane / 16 * 8) * k_stride + lane / 8 % 2 * 8;
#pragma unroll 4
    for (int d = 0; d < depth; d += 16) {
      device::FragmentA<T> a;
      device::LoadMatrix<4>(a.word, q + d);
#pragma unroll
      for (int n = 0; n < kKeys / 8; n += 2) {
        uint32_t word[4];
        device::LoadMatrix<4>(word, k + n * 8 * k_stride + d);
        device::Mma(s[n], a, device::FragmentB<T>{{word[0], word[1]}});
        device::Mma(s[n + 1], a, device::FragmentB<T>{{word[2], word[3]}});
      }
    }
  }

  // o[16, 8 kTiles] += p[16, kKeys] * v[kKeys, 8 kTiles], the weights rounded to T.
  template <int kTiles>
  static __device__ __forceinline__ void Values(device::FragmentD<Sum> (&o)[kTiles],
                                                const device::FragmentD<Sum> (&p)[kKeys / 8], const T* v, int v_stride,
                                                Sum* /*shared*/) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    v += lane % 16 * v_stride + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      device::FragmentA<T> a;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        a.word[word] = detail::PackPair<T>(&p[2 * k + word / 2].value[word % 2 * 2]);
      }
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) {
        uint32_t word[4];
        device::LoadMatrix<4, true>(word, v + k * 16 * v_stride + n * 8);
        device::Mma(o[n], a, device::FragmentB<T>{{word[0], word[1]}});
        device::Mma(o[n + 1], a, device::FragmentB<T>{{word[2], word[3]}});
      }
    }
  }
};

template <class T, class S>
struct PlainProducts {
  using Element = T;
  using Sum = S;
  static constexpr int kKeys = TileKeys(AttentionKernel::kPlain);
  static constexpr bool kWeightsInShared = true;
  static constexpr int kWeightStride = kKeys + kWeightPad;
  static constexpr int kPack = PackElems(sizeof(T));

  static __device__ __forceinline__ void Scores(device::FragmentD<Sum> (&s)[kKeys / 8], const T* q, int q_stride,
                                                const T* k, int k_stride, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    q += lane / 4 * q_stride;
    k += lane % 4 * 2 * k_stride;
    for (int d = 0; d < depth; d += kPack) {
      Sum a[2][kPack];
#pragma unroll
      for (int row = 0; row < 2; ++row) LoadSums(q + row * 8 * q_stride + d, a[row]);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          Sum b[kPack];
          LoadSums(k + (n * 8 + column) * k_stride + d, b);
#pragma unroll
          for (int i = 0; i < kPack; ++i) {
            s[n].value[column] += a[0][i] * b[i];
            s[n].value[column + 2] += a[1][i] * b[i];
          }
        }
      }
    }
  }

  // `shared` has room for the warp's weights.
  template <int kTiles>
  static __device__ __forceinline__ void Values(device::FragmentD<Sum> (&o)[kTiles],
                                                const device::FragmentD<Sum> (&p)[kKeys / 8], const T* v, int v_stride,
                                                Sum* shared) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        shared[device::MmaRow(lane, i) * kWeightStride + n * 8 + device::MmaColumn(lane, i)] = p[n].value[i];
      }
    }
    __syncwarp();
    const Sum* const weights = shared + lane / 4 * kWeightStride;
    v += lane % 4 * 2;
#pragma unroll 4
    for (int j = 0; j < kKeys; ++j) {
      const Sum a = weights[j], b = weights[8 * kWeightStride + j];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const Pack<T, 2> pair = LoadPack<2>(v + j * v_stride + n * 8);
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const Sum value = static_cast<Sum>(Load(pair.value[column]));
          o[n].value[column] += a * value;
          o[n].value[column + 2] += b * value;
        }
      }
    }
    __syncwarp();
  }

 private:
  static __device__ __forceinline__ void LoadSums(const T* shared, Sum (&sums)[kPack]) {
    const Pack<T, kPack> pack = LoadPack<kPack>(shared);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[i] = static_cast<Sum>(Load(pack.value[i]));
  }
};

}  // namespace cudaep::kernels
