#include "ops/rnn/rnn_pack.h"

namespace cudaep::ops {
namespace {

using kernels::RnnPart;

constexpr size_t kPartAlignment = 256;
constexpr RnnPart kLstm[] = {RnnPart::kLstm}, kRnn[] = {RnnPart::kRnn}, kGru[] = {RnnPart::kGru},
                  kGruResetFirst[] = {RnnPart::kGruReset, RnnPart::kGruProposal};

size_t RecurrentBytes(const RnnProblem& p) {
  return static_cast<size_t>(p.shape.directions * p.gates() * p.shape.hidden * p.shape.hidden) * SizeOf(p.type);
}

}  // namespace

std::span<const RnnPart> PartsOf(const RnnProblem& problem) {
  switch (problem.cell) {
    case kernels::RnnCell::kLstm:
      return kLstm;
    case kernels::RnnCell::kGru:
      if (problem.resets_first()) return kGruResetFirst;
      return kGru;
    case kernels::RnnCell::kRnn:
      break;
  }
  return kRnn;
}

bool TakesPackedWeights(const RnnProblem& problem, const ProductOptions& options) {
  if (options.path != GemmPath::kAuto || (problem.type == DataType::kFloat && !options.allow_tf32)) return false;
  return kernels::FitsFusedStep(problem.type, problem.shape.hidden);
}

size_t PackedOffset(const RnnProblem& problem, size_t part) {
  size_t offset = AlignUp(RecurrentBytes(problem), kPartAlignment);
  for (const RnnPart before : PartsOf(problem).first(part)) {
    offset += AlignUp(kernels::FusedWeightBytes(before, problem.type, problem.shape.directions, problem.shape.hidden),
                      kPartAlignment);
  }
  return offset;
}

Status PackRecurrent(const RnnProblem& problem, const void* r, void* packed, device::Stream stream) {
  CUDAEP_RETURN_IF_ERROR(device::MemcpyAsync(packed, r, RecurrentBytes(problem), stream));
  const std::span<const RnnPart> parts = PartsOf(problem);
  for (size_t i = 0; i < parts.size(); ++i) {
    CUDAEP_RETURN_IF_ERROR(
        kernels::LaunchFusedPack(parts[i], problem.type, problem.shape.directions, problem.shape.hidden, r,
                                 static_cast<std::byte*>(packed) + PackedOffset(problem, i), stream));
  }
  return Status::Ok();
}

}  // namespace cudaep::ops
