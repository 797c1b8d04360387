// From sums of QuantizedConv to codes.
#pragma once

#include <bit>

#include "device/rounded.h"
#include "device/tensor_core.h"
#include "kernels/conv/quantized_tile.cuh"

namespace cudaep::kernels::quantized {

// Scales, biases and shifts of a block's channels, in shared memory.
template <int kChannels>
struct Vectors {
  float scale[kChannels], bias[kChannels];
  int32_t shift[kChannels];

  __device__ __forceinline__ void Load(const Arguments& p, int place, int channel) {
    const bool exists = channel < p.conv.out_channels;
    scale[place] = exists ? p.at.scale[channel] : 0;
    bias[place] = exists && p.at.bias != nullptr ? p.at.bias[channel] : 0;
    shift[place] = exists && p.at.shift != nullptr ? p.at.shift[channel] : 0;
  }
};

// A block's codes, [kPixels][kCodeStride] in shared memory, from and to global memory: residuals in, codes out.
template <class S, class Move>
__device__ __forceinline__ void ForPieces(const Arguments& p, int first_pixel, int first_channel, const Move& move) {
#pragma unroll
  for (int n = 0; n < S::kResiduals; ++n) {
    const int i = static_cast<int>(threadIdx.x) + n * S::kThreads;
    const int line = i / (S::kChannels / 16), place = i % (S::kChannels / 16) * 16;
    const int channel = first_channel + place;
    if (line >= S::kPixels || first_pixel + line >= p.pixels || channel >= p.conv.out_channels) continue;
    move(n, line * S::kCodeStride + place, int64_t{first_pixel + line} * p.conv.out_channels + channel,
         device::Min(16, p.conv.out_channels - channel));
  }
}

template <class S>
__device__ __forceinline__ void LoadResidual(const Arguments& p, int first_pixel, int first_channel,
                                             Piece (&residual)[S::kResiduals]) {
  ForPieces<S>(p, first_pixel, first_channel, [&](int n, int, int64_t from, int) {
    residual[n] = *reinterpret_cast<const Piece*>(static_cast<const uint8_t*>(p.at.residual) + from);
  });
}

// Counted from the lowest code.
template <class S>
__device__ __forceinline__ void PlaceResidual(const Arguments& p, int first_pixel, int first_channel,
                                              const Piece (&residual)[S::kResiduals], uint8_t* codes) {
  const uint32_t flip = p.conv.residual.lowest < 0 ? 0x80u : 0u;
  ForPieces<S>(p, first_pixel, first_channel, [&](int n, int place, int64_t from, int count) {
    if (p.packs) {
      Piece piece = residual[n];
#pragma unroll
      for (uint32_t& word : piece.word) word ^= flip * 0x01010101u;
      *reinterpret_cast<Piece*>(codes + place) = piece;
    } else {
      const auto* const other = static_cast<const uint8_t*>(p.at.residual) + from;
      for (int b = 0; b < count; ++b) codes[place + b] = static_cast<uint8_t>(other[b] ^ flip);
    }
  });
}

template <class S>
__device__ __forceinline__ void StoreCodes(const Arguments& p, int first_pixel, int first_channel, const uint8_t* codes,
                                           void* result) {
  ForPieces<S>(p, first_pixel, first_channel, [&](int, int place, int64_t to, int count) {
    auto* const y = static_cast<uint8_t*>(result) + to;
    if (p.packs) {
      *reinterpret_cast<Piece*>(y) = *reinterpret_cast<const Piece*>(codes + place);
    } else {
      for (int b = 0; b < count; ++b) y[b] = codes[place + b];
    }
  });
}

enum class Form : uint8_t { kNumbers, kCodes, kSums };

// What becomes of a lane's fragments. Codes go to shared memory, where those of a residual are before.
template <class S, Form kForm>
class Finisher {
 public:
  __device__ __forceinline__ Finisher(const Arguments& p, const Vectors<S::kChannels>& vectors, int first_pixel,
                                      int first_channel, uint8_t* codes, void* result)
      : p_(p),
        vectors_(vectors),
        first_pixel_(first_pixel),
        first_channel_(first_channel),
        codes_(codes),
        result_(result),
        residual_zero_(kMiddle + static_cast<float>(p.conv.residual.zero - p.conv.residual.lowest)) {}

  // Rows `row` and `row` + 8, columns `column` and the next one.
  __device__ __forceinline__ void operator()(const device::FragmentD<int32_t>& sums, int row, int column) const {
    const float scale[2] = {vectors_.scale[column], vectors_.scale[column + 1]};
    const float bias[2] = {vectors_.bias[column], vectors_.bias[column + 1]};
    const int32_t shift[2] = {vectors_.shift[column], vectors_.shift[column + 1]};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float number[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const auto sum = static_cast<float>(sums.value[half * 2 + c] + shift[c]);
        number[c] = Bound(sum * scale[c] + bias[c], p_.y);
      }
      if constexpr (kForm == Form::kNumbers) {
        StoreNumbers(number, row + half * 8, column);
      } else {
        auto* const place = reinterpret_cast<uint16_t*>(codes_ + (row + half * 8) * S::kCodeStride + column);
        uint32_t code[2];
        if constexpr (kForm == Form::kCodes) {
#pragma unroll
          for (int c = 0; c < 2; ++c) code[c] = CodeOf(number[c], p_.y);
        } else {
          const uint32_t residual = *place;
          code[0] = CodeOfSum(number[0], residual & 0xffu), code[1] = CodeOfSum(number[1], residual >> 8);
        }
        *place = static_cast<uint16_t>((code[0] & 0xffu) | code[1] << 8);
      }
    }
  }

 private:
  // A fp32 from 2^23 to 2^24 has its integer, rounded to nearest, in its last bits.
  static constexpr float kMiddle = 0x1.8p23f;

  static __device__ __forceinline__ float Bound(float x, const Quantizer& by) {
    return fminf(fmaxf(x, by.low), by.high);
  }
  // The bits above a byte are any.
  static __device__ __forceinline__ uint32_t CodeOf(float number, const Quantizer& by) {
    return std::bit_cast<uint32_t>(by.reciprocal.Quotient(number) + kMiddle + by.zero);
  }
  // `byte`: of the residual, counted from its lowest code.
  __device__ __forceinline__ uint32_t CodeOfSum(float number, uint32_t byte) const {
    const float own = (p_.y.reciprocal.Quotient(number) + kMiddle) - kMiddle;
    const float other = std::bit_cast<float>(std::bit_cast<uint32_t>(kMiddle) | byte) - residual_zero_;
    const float sum = device::RoundedProduct(own, p_.y.scale) + device::RoundedProduct(other, p_.conv.residual.scale);
    return CodeOf(Bound(sum, p_.sum), p_.sum);
  }
  __device__ __forceinline__ void StoreNumbers(const float (&number)[2], int row, int column) const {
    if (first_pixel_ + row >= p_.pixels) return;
    auto* const y = static_cast<float*>(result_) + int64_t{first_pixel_ + row} * p_.conv.out_channels + first_channel_;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (first_channel_ + column + c < p_.conv.out_channels) y[column + c] = number[c];
    }
  }

  const Arguments& p_;
  const Vectors<S::kChannels>& vectors_;
  int first_pixel_, first_channel_;
  uint8_t* codes_;
  void* result_;
  float residual_zero_;
};

}  // namespace cudaep::kernels::quantized
