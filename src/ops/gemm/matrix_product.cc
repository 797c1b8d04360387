#include "ops/gemm/matrix_product.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/checked_math.h"
#include "device/device_info.h"
#include "kernels/gemm/tiled_gemm.h"
#include "lib/problem_check.h"
#include "ops/call_memory.h"
#include "ops/gemm/short_product.h"
#include "ops/library_limits.h"

namespace cudaep::ops {
namespace {

// What cuBLAS asks for on Hopper and newer devices; more brings nothing.
constexpr size_t kWorkspaceLimitBytes = size_t{32} << 20;
constexpr int64_t kExactRows = 16;

bool IsForLibrary(const blas::GemmProblem& p) {
  return (kFloatTypes.Contains(p.types.a) || p.types.a == DataType::kInt8) && p.k > 0;
}

// Whether the results lie without gaps, columns innermost.
bool IsDense(const blas::GemmProblem& p) {
  std::array<std::pair<int64_t, int64_t>, blas::kBatchRank + 1> dims{{{p.ldc, p.m}}};  // stride, size
  for (size_t i = 0; i < p.batch.size(); ++i) dims[i + 1] = {p.batch[i].stride_c, p.batch[i].size};
  std::sort(dims.begin(), dims.end());
  int64_t next = p.n;
  for (const auto& [stride, size] : dims) {
    if (size == 1) continue;
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

}  // namespace

int64_t RowBucket(int64_t m) {
  if (m <= kExactRows) return m;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(m - 1))) / 8;
  return (m + step - 1) / step * step;
}

Result<MatrixProduct> MatrixProduct::Make(StreamContext& stream, const blas::GemmProblem& problem,
                                          const ProductOptions& options, size_t workspace_limit_bytes) {
  MatrixProduct product;
  product.problem_ = problem;
  product.problem_.allow_tf32 = options.allow_tf32;
  product.problem_.deterministic = options.deterministic;
  const bool own_can = kernels::kTiledGemmTypes.Contains(problem.types.a);
  const size_t limit = LimitClass(
      std::min({kWorkspaceLimitBytes, workspace_limit_bytes, AvailableWorkspace(stream, options.deterministic)}));
  product.may_be_short_ = options.may_be_short;
  product.constant_bias_ = options.constant_bias;
  product.PlanOwnWays(stream.device_info());
  if (options.may_be_short && options.compiles && !product.few_rows_ && !product.many_rows_) {
    CUDAEP_ASSIGN_OR_RETURN(product.convolution_, FindShortProduct(stream, product.problem_, limit));
  }
  if (product.convolution_ != nullptr) product.workspace_bytes_ = product.convolution_->plan().workspace_bytes();
  Status refusal;
  if (options.path != GemmPath::kOwnKernel) {
    refusal = IsForLibrary(problem) ? product.UseLibrary(stream, options, limit)
                                    : NotSupported("no library takes these types or an inner size of 0");
    if (refusal.ok()) {
      product.may_fall_back_ = own_can && options.path != GemmPath::kLibrary;
      return product;
    }
    const bool other = refusal.code() == StatusCode::kNotSupported || refusal.code() == StatusCode::kLibraryMissing;
    if (!other) return refusal;
    if (options.path == GemmPath::kLibrary) {
      return NotSupported("gemm_path=library is impossible for ", blas::ProblemText(problem), ": ", refusal.message());
    }
  }
  if (!own_can) {
    return NotSupported(options.path == GemmPath::kOwnKernel ? "gemm_path=own is impossible for " : "no way to run ",
                        blas::ProblemText(problem), refusal.ok() ? "" : ": ", refusal.message());
  }
  return product;
}

void MatrixProduct::PlanOwnWays(const device::DeviceInfo& device) {
  few_rows_ = may_be_short_ ? PlanFewRows(problem_, device) : std::nullopt;
  many_rows_ = may_be_short_ && !few_rows_ ? PlanManyRows(problem_, device) : std::nullopt;
}

// On failure the product is the own kernel's.
Status MatrixProduct::UseLibrary(StreamContext& stream, const ProductOptions& options, size_t limit) {
  CUDAEP_ASSIGN_OR_RETURN(blas::Handle* const handle, stream.blas());
  blas::GemmProblem bucket = problem_;
  if (problem_.batches() == 1 && !problem_.transpose_a) bucket.m = RowBucket(problem_.m);
  ProductSearch search = options.search;
  if (few_rows_ || many_rows_) search.measure = false;  // it serves calls alone whose tensors are not aligned
  Result<PlanSlotPtr> slot = FindProductPlan(stream, search, bucket, limit);
  if (bucket.m != problem_.m && (!slot.ok() || !blas::Covers(*handle, (*slot)->As<blas::GemmPlan>(), problem_))) {
    slot = FindProductPlan(stream, search, problem_, limit);
  }
  CUDAEP_RETURN_IF_ERROR(slot.status());
  library_ = std::move(slot).value();
  const Status finished = TakeRemainder();
  if (!finished.ok()) {
    library_ = nullptr;
    return finished;
  }
  workspace_bytes_ = std::max(workspace_bytes_, library_->plan().workspace_bytes());
  search.measure = false;  // OfRows may be called while the stream is captured
  search_ = std::make_shared<const ProductSearch>(std::move(search));
  constant_a_ = options.constant_a;
  constant_b_ = options.constant_b;
  return Status::Ok();
}

// Of the epilogue what the library leaves out.
Status MatrixProduct::TakeRemainder() {
  const Epilogue& remaining = library_->plan().remaining();
  if (remaining.empty()) return Status::Ok();
  if (!IsDense(problem_)) {
    return NotSupported(blas::ProblemText(problem_), ": the library leaves an epilogue to results with gaps");
  }
  CUDAEP_ASSIGN_OR_RETURN(finish_, kernels::PlanFinish(problem_.types.c, problem_.types.c, remaining,
                                                       problem_.m * problem_.batches(), problem_.n, 1));
  return Status::Ok();
}

Result<MatrixProduct> MatrixProduct::OfRows(StreamContext& stream, int64_t rows) const {
  MatrixProduct fewer = *this;
  if (rows == problem_.m) return fewer;
  fewer.problem_.m = rows;
  fewer.PlanOwnWays(stream.device_info());
  fewer.convolution_ = nullptr;
  if (library_ == nullptr) return fewer;
  CUDAEP_ASSIGN_OR_RETURN(blas::Handle* const handle, stream.blas());
  Status taken;
  if (!blas::Covers(*handle, library_->As<blas::GemmPlan>(), fewer.problem_)) {
    // As UseLibrary does, but in the workspace that is there.
    auto exact = FindProductPlan(stream, *search_, fewer.problem_, LimitClass(workspace_bytes_));
    taken = exact.status();
    if (exact.ok()) fewer.library_ = std::move(exact).value();
  }
  fewer.finish_.reset();
  if (taken.ok()) taken = fewer.TakeRemainder();
  if (taken.ok()) return fewer;
  if (taken.code() != StatusCode::kNotSupported || !may_fall_back_) return taken;
  fewer.library_ = nullptr;
  return fewer;
}

Status MatrixProduct::EnqueueOwn(StreamContext& stream, const blas::GemmPointers& at) const {
  const blas::GemmProblem& p = problem_;
  kernels::TiledGemm gemm{.type = p.types.a,
                          .m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .transpose_a = p.transpose_a,
                          .transpose_b = p.transpose_b,
                          .lda = p.lda,
                          .ldb = p.ldb,
                          .ldc = p.ldc,
                          .epilogue = p.epilogue};
  for (size_t i = 0; i < p.batch.size(); ++i) {
    gemm.batch[i] = {p.batch[i].size, p.batch[i].stride_a, p.batch[i].stride_b, p.batch[i].stride_c};
  }
  return kernels::LaunchTiledGemm(gemm, {.a = at.a, .b = at.b, .c = at.c, .bias = at.bias, .residual = at.residual},
                                  stream.stream());
}

Status MatrixProduct::EnqueueLibrary(StreamContext& stream, const blas::GemmPointers& at) const {
  CUDAEP_ASSIGN_OR_RETURN(blas::Handle* const handle, stream.blas());
  const auto& plan = library_->As<blas::GemmPlan>();
  const auto& epilogue = problem_.epilogue;
  const bool allowed = blas::AddressBits(at, epilogue.bias, epilogue.residual()) % plan.alignment() == 0;
  if (allowed) [[likely]]
    return blas::Enqueue(*handle, plan, problem_.m, at, stream.stream());
  return EnqueueCopies(stream, *handle, plan, at);
}

// The library's call with copies of what it would refuse for its alignment, in memory of this call alone.
Status MatrixProduct::EnqueueCopies(StreamContext& stream, blas::Handle& handle, const blas::GemmPlan& plan,
                                    blas::GemmPointers at) const {
  const blas::GemmProblem& p = problem_;
  const blas::GemmSizes sizes = blas::SizesOf(p);
  CallMemory memory(stream);
  struct Copy {
    size_t offset = 0, bytes = 0;
  };
  const auto place = [&](const void* tensor, bool copied, DataType type, int64_t elems) {
    if (!copied || reinterpret_cast<uintptr_t>(tensor) % plan.alignment() == 0) return Copy{};
    const size_t bytes = static_cast<size_t>(elems) * SizeOf(type);
    return Copy{memory.Add(bytes), bytes};
  };
  const Copy a = place(at.a, !constant_a_, p.types.a, sizes.a), b = place(at.b, !constant_b_, p.types.b, sizes.b),
             c = place(at.c, true, p.types.c, sizes.c), bias = place(at.bias, p.epilogue.bias, p.types.c, p.n),
             residual = place(at.residual, p.epilogue.residual(), p.types.c, sizes.c);

  CUDAEP_RETURN_IF_ERROR(memory.Take());
  const auto copy_in = [&](const void*& tensor, const Copy& copy) -> Status {
    if (copy.bytes == 0) return Status::Ok();
    void* const to = memory.at(copy.offset);
    return device::MemcpyAsync(to, std::exchange(tensor, to), copy.bytes, stream.stream());
  };
  CUDAEP_RETURN_IF_ERROR(copy_in(at.a, a));
  CUDAEP_RETURN_IF_ERROR(copy_in(at.b, b));
  CUDAEP_RETURN_IF_ERROR(copy_in(at.bias, bias));
  CUDAEP_RETURN_IF_ERROR(copy_in(at.residual, residual));
  void* const result = at.c;
  if (c.bytes != 0) {
    at.c = memory.at(c.offset);
    // What lies between the results comes back with them.
    if (!IsDense(p)) CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(at.c, result, c.bytes, stream.stream()));
  }
  CUDAEP_RETURN_IF_ERROR(blas::Enqueue(handle, plan, p.m, at, stream.stream()));
  return c.bytes == 0 ? Status::Ok() : device::MemcpyAsync(result, at.c, c.bytes, stream.stream());
}

Status MatrixProduct::Enqueue(StreamContext& stream, const blas::GemmPointers& at) const {
  if (few_rows_ && IsAlignedForPacks(problem_, at)) return EnqueueFewRows(stream, problem_, *few_rows_, at);
  if (many_rows_ && IsAlignedForPacks(problem_, at)) {
    kernels::ManyRowsProduct product = ManyRowsOf(problem_);
    product.constant_bias = constant_bias_;
    return kernels::LaunchManyRows(product, *many_rows_, {at.a, at.b, at.c, at.bias, at.residual}, stream.stream());
  }
  if (convolution_ != nullptr && TakesShort(*convolution_, problem_, at)) {
    return EnqueueShortProduct(stream, *convolution_, at);
  }
  if (library_ == nullptr) return EnqueueOwn(stream, at);
  const Status queued = EnqueueLibrary(stream, at);
  if (queued.code() == StatusCode::kNotSupported && may_fall_back_) return EnqueueOwn(stream, at);
  CUDAEP_RETURN_IF_ERROR(queued);
  if (!finish_) return Status::Ok();
  return kernels::LaunchFinish(*finish_, at.c, at.bias, at.residual, at.c, stream.stream());
}

}  // namespace cudaep::ops
