// How warps of linear attention bring tokens to shared memory: in fp32, with gates and lengths worked out.
#pragma once

#include "device/launch.h"
#include "kernels/attention/linear_attention.h"
#include "kernels/attention/linear_state.cuh"

namespace cudaep::kernels {

// Floats of a token in shared memory: its key, its queries, the decays of rows, its values of the block's columns, and
// the decay of the head and beta.
struct TokenLayout {
  int keys = 0;     // of a vector of keys, padded
  int queries = 0;  // of the head
  int columns = 0;  // of the block
  bool decays = false;
  uint8_t unused[3] = {};

  CUDAEP_HOST_DEVICE int query(int index) const { return keys * (1 + index); }
  CUDAEP_HOST_DEVICE int decay() const { return keys * (1 + queries); }
  CUDAEP_HOST_DEVICE int values() const { return decay() + (decays ? keys : 0); }
  CUDAEP_HOST_DEVICE int scalars() const { return values() + columns; }
  CUDAEP_HOST_DEVICE int floats() const { return scalars() + 4; }
};

// Elements of a run-time type as they lie in memory, so that several loads are on their way before one is converted.
__device__ __forceinline__ uint32_t RawElement(DataType type, const void* from, int64_t index) {
  return type == DataType::kFloat ? static_cast<const uint32_t*>(from)[index]
                                  : static_cast<const uint16_t*>(from)[index];
}
__device__ __forceinline__ float FromRaw(DataType type, uint32_t raw) {
  if (type == DataType::kFloat16) return ToFloat(Half{static_cast<uint16_t>(raw)});
  return std::bit_cast<float>(type == DataType::kFloat ? raw : raw << 16);
}
__device__ __forceinline__ void StoreElement(DataType type, void* to, int64_t index, float value) {
  if (type == DataType::kFloat) static_cast<float*>(to)[index] = value;
  if (type == DataType::kFloat16) static_cast<Half*>(to)[index] = Store<Half>(value);
  if (type == DataType::kBFloat16) static_cast<BFloat16*>(to)[index] = Store<BFloat16>(value);
}

__device__ __forceinline__ float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
// NaN in either part stays.
__device__ __forceinline__ float Softplus(float x) { return std::fmax(x, 0.0f) + std::log1p(std::exp(-std::fabs(x))); }

// What the state is multiplied by.
__device__ __forceinline__ float DecayFactor(const LinearAttention& p, float x, float a, float bias) {
  if (p.gate == LinearGate::kSoftplus) x = -std::exp(a) * Softplus(x + bias);
  if (p.gate == LinearGate::kSigmoid) x = p.bound * Sigmoid(std::exp(a) * (x + bias));
  return std::exp(x);
}

// One warp reads vectors of up to kPerLane * 32 elements.
template <int kPerLane>
struct WarpVector {
  uint32_t raw[kPerLane];

  __device__ __forceinline__ void Read(DataType type, const void* from, int64_t first, int64_t size, int lane) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int at = i * 32 + lane;
      raw[i] = at < size ? RawElement(type, from, first + at) : 0;
    }
  }
  // To shared memory, where the problem says so divided by its length.
  __device__ __forceinline__ void Write(const LinearAttention& p, float* to, int lane) const {
    float value[kPerLane], squares = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      value[i] = FromRaw(p.type, raw[i]);
      squares += value[i] * value[i];
    }
    float factor = 1;
    if (p.normalized) {
      squares = device::WarpReduce(squares, [](float x, float y) { return x + y; });
      factor = 1.0f / std::sqrt(squares + p.epsilon);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) to[i * 32 + lane] = value[i] * factor;
  }
};

// What of the problem a block works on.
struct HeadPlace {
  int64_t head;    // of the states
  int64_t column;  // the block's first
  int64_t k_head, q_head;
};

// A warp brings one token.
template <class Tile>
__device__ __forceinline__ void BringToken(const LinearAttention& p, const LinearAttentionPointers& at,
                                           const TokenLayout& layout, const HeadPlace& place, int64_t token, int lane,
                                           float* shared) {
  using Vector = WarpVector<Tile::kKeysOfLane>;
  Vector key, query, decay{};
  key.Read(p.type, at.k, token * p.k_stride + place.k_head * p.key_size, p.key_size, lane);
  query.Read(p.type, at.q, token * p.q_stride + place.q_head * p.key_size, p.key_size, lane);
  if (layout.decays) {
    decay.Read(p.gate_type, at.decay, (token * p.heads + place.head) * p.key_size, p.key_size, lane);
  }
  for (int i = lane; i < layout.columns; i += 32) {
    const int64_t column = place.column + i;
    const int64_t value = token * p.v_stride + place.head * p.value_size + column;
    shared[layout.values() + i] = column < p.value_size ? FromRaw(p.type, RawElement(p.type, at.v, value)) : 0.0f;
  }
  key.Write(p, shared, lane);
  query.Write(p, shared + layout.query(0), lane);
  for (int i = 1; i < layout.queries; ++i) {
    query.Read(p.type, at.q, token * p.q_stride + (place.q_head + i) * p.key_size, p.key_size, lane);
    query.Write(p, shared + layout.query(i), lane);
  }
  const float a = p.gate == LinearGate::kNone ? 0.0f : at.a[place.head];
  if (layout.decays) {
#pragma unroll
    for (int i = 0; i < Tile::kKeysOfLane; ++i) {
      const int row = i * 32 + lane;
      float bias = 0;
      if (p.gate != LinearGate::kNone && row < p.key_size) {
        bias = at.bias[p.row_bias ? place.head * p.key_size + row : place.head];
      }
      // Rows that are not there stay zeros whatever they are multiplied by.
      shared[layout.decay() + row] = row < p.key_size ? DecayFactor(p, FromRaw(p.gate_type, decay.raw[i]), a, bias) : 0;
    }
  }
  if (lane != 0) return;
  const int64_t of_head = token * p.heads + place.head;
  float head_decay = 1, beta = 1;
  if (p.decay == LinearDecay::kHead) {
    const float bias = p.gate == LinearGate::kNone ? 0.0f : at.bias[place.head];
    head_decay = DecayFactor(p, FromRaw(p.gate_type, RawElement(p.gate_type, at.decay, of_head)), a, bias);
  }
  if (p.delta) {
    beta = FromRaw(p.gate_type, RawElement(p.gate_type, at.beta, p.shared_beta ? token : of_head));
    if (p.sigmoid_beta) beta = Sigmoid(beta);
  }
  shared[layout.scalars()] = head_decay;
  shared[layout.scalars() + 1] = beta;
}

}  // namespace cudaep::kernels
