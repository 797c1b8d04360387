#include "ops/norm/layer_norm.h"

namespace cudaep::ops {
namespace {

// One of the two halves of a broadcast: dimensions equal to the input's in one unbroken run, 1 before and behind it.
struct Run {
  int64_t repeat = 1, count = 1;
};

Result<Run> FindRun(Dims input, Dims operand, Dims whole, std::string_view what) {
  Run run;
  bool inside = false, behind = false;
  for (size_t i = input.size(); i-- > 0;) {
    if (operand[i] != 1 && operand[i] != input[i]) {
      return InvalidArgument(what, " ", whole, " does not broadcast to the input: ", operand[i], " over ", input[i]);
    }
    if (input[i] == 1) continue;
    if (operand[i] == 1) {
      behind = inside;
      if (!inside) run.repeat *= input[i];
    } else if (behind) {
      return NotSupported(what, " ", whole, " repeats over more than one group of dimensions");
    } else {
      inside = true;
      run.count *= input[i];
    }
  }
  return run;
}

}  // namespace

Result<kernels::AffineMap> MapAffine(Dims input, int axis, Dims operand, std::string_view what) {
  if (operand.size() > input.size()) {
    return InvalidArgument(what, " ", operand, " has more dimensions than the input ", input);
  }
  Shape full(static_cast<int>(input.size()), 1);
  std::copy(operand.begin(), operand.end(), full.data() + (input.size() - operand.size()));
  // A vector of the size of a row is accepted for any shape of the row, as the host does.
  const Dims columns = input.subspan(static_cast<size_t>(axis));
  if (operand.size() == 1 && columns.size() > 1 && operand[0] == ElementCount(columns)) {
    return kernels::AffineMap{.columns = operand[0]};
  }
  const size_t at = static_cast<size_t>(axis);
  CUDAEP_ASSIGN_OR_RETURN(const Run row, FindRun(input.subspan(0, at), full.dims().subspan(0, at), operand, what));
  CUDAEP_ASSIGN_OR_RETURN(const Run column, FindRun(columns, full.dims().subspan(at), operand, what));
  return kernels::AffineMap{
      .row_repeat = row.repeat, .rows = row.count, .column_repeat = column.repeat, .columns = column.count};
}

kernels::NormChoice ForcedKernel(NormPath path) {
  using Kind = kernels::NormPlan::Kind;
  switch (path) {
    case NormPath::kAuto:
      break;
    case NormPath::kDirect:
      return {Kind::kDirect};
    case NormPath::kBatch:
      return {Kind::kBatch};
    case NormPath::kTeam:
      return {Kind::kTeam};
    case NormPath::kRing:
      return {Kind::kRing};
    case NormPath::kLong:
      return {Kind::kLong};
    case NormPath::kStream:
      return {Kind::kStream};
  }
  return {};
}

Status CheckStashType(const OpInfo& info) {
  const int64_t stash_type = info.IntOr("stash_type", static_cast<int64_t>(DataType::kFloat));
  if (stash_type == static_cast<int64_t>(DataType::kFloat)) return Status::Ok();
  // The contrib versions keep fp64 statistics of fp64 inputs.
  if (stash_type == static_cast<int64_t>(DataType::kDouble) && info.input_type(0) == DataType::kDouble) {
    return Status::Ok();
  }
  return NotSupported("stash_type ", stash_type, "; only 1 (float) is offered");
}

}  // namespace cudaep::ops
