// From sums of QuantizedConv to codes.
#pragma once

#include "device/tensor_core.h"
#include "kernels/conv/quantized_tile.cuh"

namespace cudaep::kernels::quantized {

// What a block's channels have beside their sums, by pairs, in shared memory: (sum + shift) * factor + bias is the
// number, or, for codes, what RaisedOf takes. What is left of two large whole numbers is exact.
template <int kChannels>
struct Vectors {
  struct alignas(16) Pair {
    float factor[2], bias[2];
  };
  struct alignas(8) Shift {
    int32_t of[2];
  };
  Pair pair[kChannels / 2];
  Shift shift[kChannels / 2];

  __device__ __forceinline__ void Load(const Arguments& p, int place, int channel) {
    const bool exists = channel < p.conv.out_channels;
    Pair& to = pair[place / 2];
    to.factor[place % 2] = exists ? p.y.FactorOf(p.at.scale[channel]) : 0;
    to.bias[place % 2] = p.y.StartOf(exists && p.at.bias != nullptr ? p.at.bias[channel] : 0.0f);
    shift[place / 2].of[place % 2] = exists && p.at.shift != nullptr ? p.at.shift[channel] : 0;
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
  ForPieces<S>(p, first_pixel, first_channel, [&](int n, int place, int64_t from, int count) {
    if (p.packs) {
      Piece piece = residual[n];
#pragma unroll
      for (uint32_t& word : piece.word) word ^= p.residual.flip * 0x01010101u;
      *reinterpret_cast<Piece*>(codes + place) = piece;
    } else {
      const auto* const other = static_cast<const uint8_t*>(p.at.residual) + from;
      for (int b = 0; b < count; ++b) codes[place + b] = static_cast<uint8_t>(other[b] ^ p.residual.flip);
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

// What a sum of channel `c` of a pair stands for, where that is no code.
template <class Pair, class Shift>
__device__ __forceinline__ float NumberOf(const Arguments& p, int32_t sum, const Pair& pair, const Shift& shift,
                                          int c) {
  const float x = fmaf(static_cast<float>(sum + shift.of[c]), pair.factor[c], pair.bias[c]);
  return fminf(fmaxf(x, p.conv.bounds.low), p.conv.bounds.high);
}
// What CodesOf makes its code of. With a residual, whose byte `index` counts from its lowest code, that of their sum.
template <Form kForm, class Pair, class Shift>
__device__ __forceinline__ int32_t RaisedOf(const Arguments& p, int32_t sum, const Pair& pair, const Shift& shift,
                                            int c, uint32_t residual, int index) {
  static_assert(kForm != Form::kNumbers);
  const auto whole = static_cast<float>(sum + shift.of[c]);
  if constexpr (kForm == Form::kCodes) {
    return p.y.RaisedOf(whole, pair.factor[c], pair.bias[c]);
  } else {
    const float code = p.y.range.Whole(whole, pair.factor[c], pair.bias[c]);
    const float other = AboveZero(p.residual, residual, index);
    return p.sum.RaisedOf(code, p.y_ratio, fmaf(other, p.residual_ratio, p.sum.range.scaled_start));
  }
}
template <Form kForm, class... Raised>
__device__ __forceinline__ uint32_t CodesOf(const Arguments& p, Raised... raised) {
  return (kForm == Form::kSums ? p.sum : p.y).bytes.Join(raised...);
}

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
        result_(result) {}

  // Rows `row` and `row` + 8, columns `column` and the next one.
  __device__ __forceinline__ void operator()(const device::FragmentD<int32_t>& sums, int row, int column) const {
    const auto pair = vectors_.pair[column / 2];
    const auto shift = vectors_.shift[column / 2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t* const sum = sums.value + half * 2;
      if constexpr (kForm == Form::kNumbers) {
        const float number[2] = {NumberOf(p_, sum[0], pair, shift, 0), NumberOf(p_, sum[1], pair, shift, 1)};
        StoreNumbers(number, row + half * 8, column);
      } else {
        auto* const place = reinterpret_cast<uint16_t*>(codes_ + (row + half * 8) * S::kCodeStride + column);
        const uint32_t residual = kForm == Form::kSums ? *place : 0;
        *place = static_cast<uint16_t>(CodesOf<kForm>(p_, RaisedOf<kForm>(p_, sum[0], pair, shift, 0, residual, 0),
                                                      RaisedOf<kForm>(p_, sum[1], pair, shift, 1, residual, 1)));
      }
    }
  }

 private:
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
};

}  // namespace cudaep::kernels::quantized
