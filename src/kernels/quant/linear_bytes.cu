#include "kernels/common/raw_pack.cuh"
#include "kernels/quant/linear_bytes.h"
#include "kernels/quant/linear_value.cuh"

namespace cudaep::kernels {
namespace {

constexpr DataTypeSet kReals = kFloatTypesNoDouble;
// Quads of a thread: those with four scales have more to work out for them.
template <bool kColumns>
inline constexpr int kRows = kColumns ? 2 * kQuadsPerThread : kQuadsPerThread;

// Where they begin, one below the other, and the number of their scale or of the first of four.
template <bool kColumns>
struct RowPlaces {
  uint32_t first, pitch, number;

  __device__ __forceinline__ explicit RowPlaces(const LinearCall& p) : pitch(p.pitch) {
    uint32_t column;
    const uint32_t rows = p.columns.DivideWithRemainder(blockIdx.x * kQuadThreads + threadIdx.x, &column);
    first = rows * kRows<kColumns> * pitch + column * kQuad;
    number = kColumns ? column * kQuad : static_cast<uint32_t>(ScaleOf(p, column * kQuad));
  }
  __device__ __forceinline__ uint32_t operator()(int j) const { return first + j * pitch; }
};

// Scales and zero points of a thread's quads as they are in memory: one, or with kColumns one for each of a quad's
// elements. Nobody looks at them before the elements are on their way too.
template <DataType kReal, DataType kByte, bool kColumns>
struct RawScales {
  static constexpr int kCount = kColumns ? kQuad : 1;
  Pack<CppType<kReal>, kCount> scale;
  Pack<CppType<kByte>, kCount> zero = {};

  __device__ __forceinline__ RawScales(const LinearCall& p, uint32_t number)
      : scale(LoadPack<kCount>(static_cast<const CppType<kReal>*>(p.scale) + number)) {
    if (p.zero_point != nullptr) zero = LoadPack<kCount>(static_cast<const CppType<kByte>*>(p.zero_point) + number);
  }
  __device__ __forceinline__ float Scale(int k) const { return Load(scale.value[kColumns ? k : 0]); }
  __device__ __forceinline__ int32_t Zero(int k) const { return static_cast<int32_t>(zero.value[kColumns ? k : 0]); }
};

// Quads stay words until they are used: as elements they would take a register each.
template <DataType type>
using QuadWords = RawPack<CppType<type>, kQuad>;

template <DataType type, int kCount, class Places>
__device__ __forceinline__ void LoadRows(const LinearCall& p, const Places& places, QuadWords<type> (&x)[kCount]) {
  if (p.x.aligned && places(kCount - 1) + kQuad <= p.elems) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] = LoadRaw<kQuad>(static_cast<const CppType<type>*>(p.x.data) + places(j));
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      x[j] = std::bit_cast<QuadWords<type>>(LoadQuad<type>(p.x, places(j), p.elems).pack);
    }
  }
}
template <DataType type, int kCount, class Places>
__device__ __forceinline__ void StoreRows(const LinearCall& p, const Places& places,
                                          const QuadWords<type> (&y)[kCount]) {
  if (p.y.aligned && places(kCount - 1) + kQuad <= p.elems) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) StoreWords<kQuad>(static_cast<CppType<type>*>(p.y.data) + places(j), y[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      StoreQuad<type>(p.y, places(j), p.elems, std::bit_cast<QuadOf<type>>(y[j]));
    }
  }
}

// `quotient(k, x)` of element k of a quad.
template <DataType kReal, DataType kByte, bool kColumns, class Quotient>
__device__ __forceinline__ void QuantizeRows(const QuadWords<kReal> (&x)[kRows<kColumns>],
                                             const RawScales<kReal, kByte, kColumns>& raw, Quotient&& quotient,
                                             QuadWords<kByte> (&y)[kRows<kColumns>]) {
#pragma unroll
  for (int j = 0; j < kRows<kColumns>; ++j) {
    float value[kQuad];
    UnpackCompute<CppType<kReal>, kQuad>(x[j], value);
    Pack<CppType<kByte>, kQuad> bytes;
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      bytes.value[k] = static_cast<CppType<kByte>>(Quantized<kByte>(quotient(k, value[k]), raw.Zero(k), true));
    }
    y[j] = std::bit_cast<QuadWords<kByte>>(bytes);
  }
}

template <DataType kReal, DataType kByte, bool kColumns>
__global__ void __launch_bounds__(kQuadThreads, 4) QuantizeBytesKernel(__grid_constant__ const LinearCall p) {
  using Divider = QuickDivider<sizeof(CppType<kReal>) == 2>;
  TriggerDependentsOfSmallGrid();
  const RowPlaces<kColumns> places(p);
  device::GridDependencyWait();
  if (places(0) >= p.elems) return;
  const RawScales<kReal, kByte, kColumns> raw(p, places.number);
  QuadWords<kReal> x[kRows<kColumns>];
  LoadRows<kReal>(p, places, x);
  Divider divider[kQuad];
  bool in_range = true;
#pragma unroll
  for (int k = 0; k < kQuad; ++k) {
    divider[k] = Divider(raw.Scale(k));
    in_range = in_range && Divider::InRange(raw.Scale(k));
  }
  QuadWords<kByte> y[kRows<kColumns>];
  float largest = 0;
  QuantizeRows(
      x, raw, [&](int k, float value) { return divider[k].Near(value, largest); }, y);
  // A scale or an element of an unusual size.
  if (!in_range || largest >= Divider::kNear) {
    QuantizeRows(
        x, raw, [&](int k, float value) { return value / raw.Scale(k); }, y);
  }
  StoreRows<kByte>(p, places, y);
}

template <DataType kReal, DataType kByte, bool kColumns>
__global__ void __launch_bounds__(kQuadThreads) DequantizeBytesKernel(__grid_constant__ const LinearCall p) {
  TriggerDependentsOfSmallGrid();
  const RowPlaces<kColumns> places(p);
  device::GridDependencyWait();
  if (places(0) >= p.elems) return;
  const RawScales<kReal, kByte, kColumns> raw(p, places.number);
  QuadWords<kByte> x[kRows<kColumns>];
  LoadRows<kByte>(p, places, x);
  QuadWords<kReal> y[kRows<kColumns>];
#pragma unroll
  for (int j = 0; j < kRows<kColumns>; ++j) {
    const auto bytes = std::bit_cast<Pack<CppType<kByte>, kQuad>>(x[j]);
    float value[kQuad];
#pragma unroll
    for (int k = 0; k < kQuad; ++k) {
      value[k] = SmallDifference(static_cast<int32_t>(bytes.value[k]), raw.Zero(k)) * raw.Scale(k);
    }
    y[j] = PackCompute<CppType<kReal>, kQuad>(value);
  }
  StoreRows<kReal>(p, places, y);
}

// Launches make.operator()<real, byte, columns>() unless the call's types are others.
template <class Make>
Status LaunchBytes(ScaleWalk walk, const LinearCall& call, DataType real, DataType byte, device::LaunchConfig config,
                   device::Stream stream, bool* launched, Make make) {
  *launched = false;
  const bool columns = call.step != 0;
  if (walk != ScaleWalk::kSame || (call.wide && !call.one) || call.scale_type != real || !kReals.Contains(real) ||
      !kInt8Types.Contains(byte)) {
    return Status::Ok();
  }
  if (columns && (!call.whole_quads || call.scales.inner != 1 || call.scales.block != 1)) return Status::Ok();
  using Kernel = void (*)(LinearCall);
  const auto of_byte = [&]<DataType r, DataType b>() -> Kernel {
    return columns ? make.template operator()<r, b, true>() : make.template operator()<r, b, false>();
  };
  const auto of_real = [&]<DataType r>() {
    return byte == DataType::kInt8 ? of_byte.template operator()<r, DataType::kInt8>()
                                   : of_byte.template operator()<r, DataType::kUint8>();
  };
  const Kernel kernel = real == DataType::kFloat     ? of_real.template operator()<DataType::kFloat>()
                        : real == DataType::kFloat16 ? of_real.template operator()<DataType::kFloat16>()
                                                     : of_real.template operator()<DataType::kBFloat16>();
  if (columns) {
    const int64_t threads = CeilDiv(int64_t{call.elems}, int64_t{call.pitch} * kRows<true>) * (call.pitch / kQuad);
    config.grid.x = static_cast<unsigned>(CeilDiv<int64_t>(threads, kQuadThreads));
  }
  *launched = true;
  return device::Launch(kernel, config, stream, call);
}

}  // namespace

Status LaunchBytesQuantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                           device::Stream stream, bool* launched) {
  *launched = false;
  if (call.precision != DataType::kFloat) return Status::Ok();
  return LaunchBytes(
      walk, call, call.x_type, call.y_type, config, stream, launched,
      [&]<DataType real, DataType byte, bool columns>() { return &QuantizeBytesKernel<real, byte, columns>; });
}

Status LaunchBytesDequantize(ScaleWalk walk, const LinearCall& call, const device::LaunchConfig& config,
                             device::Stream stream, bool* launched) {
  return LaunchBytes(
      walk, call, call.y_type, call.x_type, config, stream, launched,
      [&]<DataType real, DataType byte, bool columns>() { return &DequantizeBytesKernel<real, byte, columns>; });
}

}  // namespace cudaep::kernels
