// Attention by a recurrent state instead of keys and values: a matrix S [key size, value size] a head, and for each
// token t with query q, key k and value v
//
//   S = exp(decay) S                  the decay of the head, or of each row of S
//   d = v, or beta (v - S^T k)        the latter is the delta rule
//   S = S + k d^T,   y = scale S^T q
//
// Everything is computed in fp32. A warp holds whole columns of S in registers, so columns need nothing of each other;
// other warps of the block bring the tokens to shared memory, a group ahead. One token is bound by the memory that the
// state takes, many by the time of a step.
// Sources: S. Yang et al., "Gated Delta Networks", 2024; Kimi Team, "Kimi Linear", 2025 (decays of rows).
#pragma once

#include <cstdint>

#include "core/data_type.h"
#include "core/status.h"
#include "device/device.h"

namespace cudaep::kernels {

inline constexpr int64_t kMostLinearKeySize = 512;

enum class LinearDecay : uint8_t { kNone, kHead, kRow };
// What of the input is the decay: x; -exp(a) softplus(x + bias); bound sigmoid(exp(a) (x + bias)).
enum class LinearGate : uint8_t { kNone, kSoftplus, kSigmoid };

// Neighbouring heads share what there is less of: of q, k or states. max(q_heads, heads) results a token.
struct LinearAttention {
  DataType type = DataType::kFloat;        // of q, k, v and y: kFloatTypesNoDouble, as those below
  DataType gate_type = DataType::kFloat;   // of decay and beta
  DataType state_type = DataType::kFloat;  // kFloat with value_rows
  LinearDecay decay = LinearDecay::kNone;
  LinearGate gate = LinearGate::kNone;
  bool delta = false;
  bool shared_beta = false;   // one of a token, not one of each head
  bool sigmoid_beta = false;  // beta is sigmoid of the input
  bool normalized = false;    // q and k are divided by their length
  bool row_bias = false;      // the gate's bias is one of each row
  bool value_rows = false;    // states lie as [value size, key size]
  bool capture = false;       // with value_rows
  uint8_t unused[4] = {};     // whole words, which the simulated device takes for addresses
  float scale = 1, bound = 0;
  float epsilon = 1e-12f, unused_too = 0;  // added to squares of lengths
  int64_t batch = 0, tokens = 0;           // of all entries together
  int64_t q_heads = 0, k_heads = 0, heads = 0, key_size = 0, value_size = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0;  // of tokens, in elements
  // States that are written: those after the last `window` tokens, zeros where there was none. The last one is read.
  int64_t window = 1;
  int64_t capacity = 0;  // tokens whose decay, key and d are written, with capture

  constexpr int64_t result_heads() const { return q_heads > heads ? q_heads : heads; }
};

struct LinearAttentionPointers {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  const void *decay = nullptr, *beta = nullptr;
  const float *a = nullptr, *bias = nullptr;  // of the gate: [heads]; [heads] or [heads, key_size]
  const int32_t* offsets = nullptr;           // [batch + 1] of tokens; null: entries of one length
  const int32_t* captured = nullptr;          // [batch] tokens at most, below capacity
  const void* past = nullptr;                 // [window, batch, heads, state], null: zeros. May be `present`.
  void* present = nullptr;                    // the same; null: not wanted
  void* y = nullptr;                          // [tokens, result heads, value_size]
  float* updates = nullptr;                   // [batch, capacity * (decays + keys + values)] or null
};

// One launch. kNotSupported where a head's queries of one token do not fit shared memory.
Status LaunchLinearAttention(const LinearAttention& problem, const LinearAttentionPointers& at,
                             const device::DeviceInfo& device, device::Stream stream);

}  // namespace cudaep::kernels
