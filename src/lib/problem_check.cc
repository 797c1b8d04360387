#include "lib/problem_check.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "core/checked_math.h"
#include "core/strings.h"

namespace cudaep::lib {

std::string MixedTypes::Text() const {
  if (*this == Of(a)) return std::string(DataTypeName(a));
  return StrCat(DataTypeName(a), ',', DataTypeName(b), ',', DataTypeName(c), ',', DataTypeName(compute));
}

std::string EpilogueText(const Epilogue& e) {
  std::string text;
  if (e.alpha != 1.0f) text += StrCat(" alpha ", std::bit_cast<uint32_t>(e.alpha));
  if (e.residual()) text += StrCat(e.adds_last ? " last" : "", " residual ", std::bit_cast<uint32_t>(e.beta));
  if (e.bias) text += " bias";
  if (e.activation != Activation::kNone) text += StrCat(' ', ActivationName(e.activation));
  if (e.parameters != ActivationParameters{}) {
    text += StrCat(' ', std::bit_cast<uint32_t>(e.parameters.a), ' ', std::bit_cast<uint32_t>(e.parameters.b));
  }
  return text;
}

std::string NumericsText(DataType type, bool allow_tf32, bool deterministic) {
  return StrCat(type == DataType::kFloat && allow_tf32 ? " tf32" : "", deterministic ? " deterministic" : "");
}

}  // namespace cudaep::lib

namespace cudaep::blas {
namespace {

// A stored matrix of `rows` x `columns` with `stride` elements between rows; one row needs no valid stride.
Status CheckRows(std::string_view name, int64_t rows, int64_t columns, int64_t stride) {
  if (rows > 1 && stride < columns) {
    return InvalidArgument("GEMM: ", name, " has ", columns, " columns but only ", stride, " elements between rows");
  }
  int64_t elems = 0;
  if (!CheckedMultiply(rows, std::max(stride, columns), &elems)) {
    return InvalidArgument("GEMM: ", name, " has more elements than 64 bits can count");
  }
  return Status::Ok();
}

// Whether every index of the batch dimensions gets a result of its own.
bool ResultsAreApart(const GemmProblem& p) {
  return std::all_of(p.batch.begin(), p.batch.end(), [](const BatchDim& d) { return d.size == 1 || d.stride_c > 0; });
}

}  // namespace

Status CheckProblem(const GemmProblem& p) {
  const bool floats = kFloatTypes.Contains(p.types.a) && p.types == lib::MixedTypes::Of(p.types.a);
  if (!floats && p.types != lib::MixedTypes::Of(DataType::kInt8)) {
    return InvalidArgument("GEMM of types ", p.types.Text(), " is not offered");
  }
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) {
    return InvalidArgument("GEMM: sizes must be positive, not ", p.m, 'x', p.n, 'x', p.k);
  }
  int64_t batches = 1;
  for (const BatchDim& dim : p.batch) {
    if (dim.size <= 0) return InvalidArgument("GEMM: batch sizes must be positive, not ", dim.size);
    if (dim.stride_a < 0 || dim.stride_b < 0 || dim.stride_c < 0) {
      return InvalidArgument("GEMM: batch strides are negative");
    }
    if (!CheckedMultiply(batches, dim.size, &batches)) return InvalidArgument("GEMM: more batches than can be counted");
  }
  if (!ResultsAreApart(p)) return InvalidArgument("GEMM: the results of a batch would overlap (stride_c 0)");
  if (p.epilogue.adds_last) return InvalidArgument("GEMM: no residual behind an activation is offered");
  if (!floats && p.epilogue.activation != Activation::kNone) {
    return InvalidArgument("GEMM: no activation of integers is offered");
  }
  CUDAEP_RETURN_IF_ERROR(CheckRows("A", p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda));
  CUDAEP_RETURN_IF_ERROR(CheckRows("B", p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb));
  return CheckRows("C", p.m, p.n, p.ldc);
}

std::string ProblemText(const GemmProblem& p) {
  std::string text = StrCat("GEMM ", p.types.Text(), ' ', p.m, 'x', p.n, 'x', p.k, p.transpose_a ? " A^T" : "",
                            p.transpose_b ? " B^T" : "", " ld ", p.lda, ',', p.ldb, ',', p.ldc);
  for (const BatchDim& dim : p.batch) {
    if (dim.size == 1) continue;
    text += StrCat(" batch ", dim.size, " by ", dim.stride_a, ',', dim.stride_b, ',', dim.stride_c);
  }
  return text + lib::EpilogueText(p.epilogue) + lib::NumericsText(p.types.a, p.allow_tf32, p.deterministic);
}

GemmSizes SizesOf(const GemmProblem& p) {
  const auto matrix = [](bool transposed, int64_t rows, int64_t columns, int64_t ld) {
    if (transposed) std::swap(rows, columns);
    return (rows - 1) * ld + columns;
  };
  GemmSizes sizes{matrix(p.transpose_a, p.m, p.k, p.lda), matrix(p.transpose_b, p.k, p.n, p.ldb),
                  matrix(false, p.m, p.n, p.ldc)};
  for (const BatchDim& dim : p.batch) {
    sizes.a += (dim.size - 1) * dim.stride_a;
    sizes.b += (dim.size - 1) * dim.stride_b;
    sizes.c += (dim.size - 1) * dim.stride_c;
  }
  return sizes;
}

bool IsAlgorithmFixed(const GemmProblem& p) { return p.deterministic && p.types.compute != DataType::kInt32; }

uintptr_t AddressBits(const GemmPointers& at, bool has_bias, bool has_residual) {
  const auto bits = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  return bits(at.a) | bits(at.b) | bits(at.c) | (has_bias ? bits(at.bias) : 0) | (has_residual ? bits(at.residual) : 0);
}

}  // namespace cudaep::blas

namespace cudaep::dnn {
namespace {

// Outputs of a convolution along one dimension.
int64_t OutputSize(int64_t in, int64_t kernel, int64_t pads, int64_t stride, int64_t dilation) {
  const int64_t span = in + pads - dilation * (kernel - 1) - 1;
  return span < 0 ? 0 : span / stride + 1;
}

Status CheckDimension(const ConvProblem& p, int d) {
  if (p.in[d] <= 0 || p.out[d] <= 0 || p.kernel[d] <= 0 || p.stride[d] <= 0 || p.dilation[d] <= 0) {
    return InvalidArgument("convolution: spatial dimension ", d, " has a size, stride or dilation below 1");
  }
  if (p.pad_begin[d] < 0 || p.pad_end[d] < 0) {
    return InvalidArgument("convolution: negative padding at spatial dimension ", d);
  }
  const int64_t pads = p.pad_begin[d] + p.pad_end[d];
  if (p.direction == Direction::kForward) {
    const int64_t expected = OutputSize(p.in[d], p.kernel[d], pads, p.stride[d], p.dilation[d]);
    if (p.out[d] == expected) return Status::Ok();
    return InvalidArgument("convolution: output size ", p.out[d], " at spatial dimension ", d, ", expected ", expected);
  }
  // Transposed: anything from the exact inverse on is output padding; its elements get the bias alone.
  const int64_t least = (p.in[d] - 1) * p.stride[d] + p.dilation[d] * (p.kernel[d] - 1) + 1 - pads;
  if (p.out[d] >= least) return Status::Ok();
  return InvalidArgument("transposed convolution: output size ", p.out[d], " at spatial dimension ", d,
                         ", expected at least ", least);
}

Status CheckCount(std::string_view name, int64_t a, int64_t b, const Spatial& spatial, int rank) {
  int64_t count = 0;
  bool fits = CheckedMultiply(a, b, &count);
  for (int d = 0; d < rank && fits; ++d) fits = CheckedMultiply(count, spatial[d], &count);
  // Room for eight bytes an element.
  if (fits && count <= INT64_MAX / 8) return Status::Ok();
  return InvalidArgument("convolution: ", name, " has more elements than 64 bits can count");
}

std::string PartsText(const ConvProblem& p) {
  return p.has_parts() ? StrCat(" parts of ", p.x_pitch, ',', p.y_pitch, ',', p.residual_pitch) : std::string();
}

std::span<const int64_t> Used(const Spatial& values, const ConvProblem& p) {
  return {values.data(), static_cast<size_t>(p.spatial_rank)};
}

}  // namespace

Status CheckProblem(const ConvProblem& p) {
  if (!kFloatTypes.Contains(p.types.a) || p.types != lib::MixedTypes::Of(p.types.a)) {
    return InvalidArgument("convolution of ", p.types.Text(), " is not offered");
  }
  if (p.epilogue.alpha != 1.0f || (p.epilogue.residual() && p.epilogue.beta != 1.0f)) {
    return InvalidArgument("convolution: neither the sum nor the residual is scaled");
  }
  if (p.spatial_rank < 1 || p.spatial_rank > kMaxSpatialRank) {
    return InvalidArgument("convolution: 1 to ", kMaxSpatialRank, " spatial dimensions, not ", p.spatial_rank);
  }
  if (p.batch <= 0 || p.in_channels <= 0 || p.out_channels <= 0 || p.groups <= 0) {
    return InvalidArgument("convolution: batch, channels and groups must be positive");
  }
  if (p.in_channels % p.groups != 0 || p.out_channels % p.groups != 0) {
    return InvalidArgument("convolution: ", p.in_channels, " input and ", p.out_channels,
                           " output channels do not divide into ", p.groups, " groups");
  }
  for (int d = 0; d < p.spatial_rank; ++d) CUDAEP_RETURN_IF_ERROR(CheckDimension(p, d));
  const auto is_part = [&](int64_t pitch, int64_t channels) {
    return pitch == 0 || (p.layout == Layout::kChannelsLast && pitch >= channels);
  };
  if (!is_part(p.x_pitch, p.in_channels) || !is_part(p.y_pitch, p.out_channels) ||
      !is_part(p.residual_pitch, p.out_channels)) {
    return InvalidArgument("convolution: only channels-last tensors are parts, and of no fewer channels");
  }
  CUDAEP_RETURN_IF_ERROR(CheckCount("x", p.batch, p.in_channels, p.in, p.spatial_rank));
  CUDAEP_RETURN_IF_ERROR(CheckCount("y", p.batch, p.out_channels, p.out, p.spatial_rank));
  return CheckCount("w", p.in_channels, p.out_channels, p.kernel, p.spatial_rank);
}

std::string ProblemText(const ConvProblem& p) {
  return StrCat(p.direction == Direction::kForward ? "convolution " : "transposed convolution ", p.types.Text(),
                p.layout == Layout::kChannelsFirst ? " NC" : " N..C", " batch ", p.batch, " channels ", p.in_channels,
                "->", p.out_channels, " groups ", p.groups, " in ", Used(p.in, p), " out ", Used(p.out, p), " kernel ",
                Used(p.kernel, p), " pads ", Used(p.pad_begin, p), Used(p.pad_end, p), " stride ", Used(p.stride, p),
                " dilation ", Used(p.dilation, p), PartsText(p), lib::EpilogueText(p.epilogue),
                lib::NumericsText(p.types.a, p.allow_tf32, p.deterministic));
}

ConvProblem WithoutParts(ConvProblem problem) {
  problem.x_pitch = problem.y_pitch = problem.residual_pitch = 0;
  return problem;
}

ConvSizes SizesOf(const ConvProblem& p) {
  ConvSizes sizes{p.batch * p.in_channels, p.in_channels * p.out_channels / p.groups, p.batch * p.out_channels};
  for (int d = 0; d < p.spatial_rank; ++d) {
    sizes.x *= p.in[d];
    sizes.w *= p.kernel[d];
    sizes.y *= p.out[d];
  }
  return sizes;
}

}  // namespace cudaep::dnn
