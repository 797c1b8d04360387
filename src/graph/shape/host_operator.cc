#include "graph/shape/host_operator.h"

#include "graph/shape/evaluation.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

// A version that is not in one of these ranges is refused: what a later one changes is not known.
struct Entry {
  const char* op;
  int since, until;  // versions of the schema
  int inputs;        // those that every node has
  HostFactory (*find)(std::string_view op);
};

constexpr Entry kEntries[] = {
    {"Abs", 6, 13, 1, FindUnary},
    {"Add", 7, 14, 2, FindBinary},
    {"And", 7, 7, 2, FindBinary},
    {"Cast", 6, 28, 1, FindUnary},
    {"Ceil", 6, 13, 1, FindUnary},
    {"Concat", 4, 13, 1, FindMovement},
    {"ConstantOfShape", 9, 25, 1, FindGenerator},
    {"Div", 7, 14, 2, FindBinary},
    {"Equal", 7, 19, 2, FindBinary},
    {"Expand", 8, 13, 2, FindMovement},
    {"Floor", 6, 13, 1, FindUnary},
    {"Gather", 1, 13, 2, FindMovement},
    {"Greater", 7, 13, 2, FindBinary},
    {"GreaterOrEqual", 12, 16, 2, FindBinary},
    {"Identity", 1, 25, 1, FindMovement},
    {"Less", 7, 13, 2, FindBinary},
    {"LessOrEqual", 12, 16, 2, FindBinary},
    {"Max", 6, 13, 1, FindBinary},
    {"Min", 6, 13, 1, FindBinary},
    {"Mod", 10, 28, 2, FindBinary},
    {"Mul", 7, 14, 2, FindBinary},
    {"Neg", 6, 13, 1, FindUnary},
    {"Not", 1, 1, 1, FindUnary},
    {"Or", 7, 7, 2, FindBinary},
    {"Pow", 7, 15, 2, FindBinary},
    {"Range", 11, 27, 3, FindGenerator},
    {"ReduceMax", 1, 20, 1, FindReduction},
    {"ReduceMin", 1, 20, 1, FindReduction},
    {"ReduceProd", 1, 18, 1, FindReduction},
    {"ReduceSum", 1, 13, 1, FindReduction},
    {"Reshape", 5, 25, 2, FindMovement},
    {"Round", 11, 22, 1, FindUnary},
    {"Shape", 1, 25, 1, FindGenerator},
    {"Sign", 9, 13, 1, FindUnary},
    {"Size", 1, 25, 1, FindGenerator},
    {"Slice", 1, 1, 1, FindMovement},
    {"Slice", 10, 13, 3, FindMovement},
    {"Split", 2, 18, 1, FindMovement},
    {"Sqrt", 6, 13, 1, FindUnary},
    {"Squeeze", 1, 25, 1, FindMovement},
    {"Sub", 7, 14, 2, FindBinary},
    {"Tile", 6, 13, 2, FindMovement},
    {"Transpose", 1, 25, 1, FindMovement},
    {"Unsqueeze", 1, 11, 1, FindMovement},
    {"Unsqueeze", 13, 25, 2, FindMovement},
    {"Where", 9, 16, 3, FindBinary},
};

Status MissingEntry(const ops::OpInfo& info) {
  for (const Entry& entry : kEntries) {
    if (info.domain().empty() && info.op_type() == entry.op) {
      return NotSupported("version ", info.since_version(), " of ", entry.op, " is not evaluated on the host");
    }
  }
  return NotSupported(info.domain().empty() ? "ai.onnx" : info.domain(), ".", info.op_type(),
                      " is not evaluated on the host");
}

}  // namespace

bool ReadsDimsOnly(const ops::OpInfo& info) {
  return info.domain().empty() && (info.op_type() == "Shape" || info.op_type() == "Size");
}

Result<std::unique_ptr<HostOperator>> MakeHostOperator(const ops::OpInfo& info) {
  const Entry* found = nullptr;
  for (const Entry& entry : kEntries) {
    if (info.domain().empty() && info.op_type() == entry.op && info.since_version() >= entry.since &&
        info.since_version() <= entry.until) {
      found = &entry;
    }
  }
  if (found == nullptr) return MissingEntry(info);
  for (int i = 0; i < info.input_count(); ++i) {
    if (info.has_input(i) && !ReadsDimsOnly(info) && !kHostTypes.Contains(info.input_type(i))) {
      return NotSupported(found->op, " of element type ", DataTypeName(info.input_type(i)),
                          " is not evaluated on the host");
    }
  }
  for (int i = 0; i < found->inputs; ++i) {
    if (!info.has_input(i)) return InvalidArgument(found->op, " has no input ", i);
  }
  return found->find(info.op_type())(info);
}

CheckedOperator::CheckedOperator(const ops::OpInfo& info, DataType output_type)
    : label_(StrCat(info.op_type(), " node '", info.name(), "'")),
      dims_only_(ReadsDimsOnly(info)),
      output_count_(static_cast<size_t>(info.output_count())),
      output_type_(output_type) {
  for (int i = 0; i < info.input_count(); ++i) {
    input_types_.push_back(info.has_input(i) ? info.input_type(i) : DataType::kUndefined);
  }
}

Status CheckedOperator::Evaluate(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const {
  return Run(inputs, outputs).WithContext(label_);
}

Status CheckedOperator::Run(ops::TensorViews inputs, std::vector<ops::HostTensor>& outputs) const {
  if (inputs.size() != input_types_.size()) {
    return InvalidArgument(inputs.size(), " inputs, the node has ", input_types_.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) CUDAEP_RETURN_IF_ERROR(CheckInput(inputs[i], i));
  std::vector<Shape> shapes(output_count_);
  CUDAEP_RETURN_IF_ERROR(InferShapes(inputs, shapes));
  outputs.assign(output_count_, {});
  bool empty = true;
  for (size_t i = 0; i < shapes.size(); ++i) {
    CUDAEP_ASSIGN_OR_RETURN(const int64_t elems, CheckedElementCount(shapes[i]));
    if (elems > kMaxHostElems) {
      return InvalidArgument("a result of shape ", shapes[i].dims(), " is more than the ", kMaxHostElems,
                             " elements that are evaluated on the host");
    }
    outputs[i].type = output_type_;
    outputs[i].dims = std::move(shapes[i]);
    outputs[i].data.resize(static_cast<size_t>(elems) * SizeOf(output_type_));
    empty = empty && elems == 0;
  }
  return empty ? Status::Ok() : Compute(inputs, outputs);
}

Status CheckedOperator::CheckInput(const ops::TensorView& input, size_t index) const {
  if (input.present() != (input_types_[index] != DataType::kUndefined) ||
      (!dims_only_ && input.type != input_types_[index])) {
    return InvalidArgument("input ", index, " is ", DataTypeName(input.type), ", the node's is ",
                           DataTypeName(input_types_[index]));
  }
  if (!input.present()) return Status::Ok();
  CUDAEP_ASSIGN_OR_RETURN(const int64_t elems, CheckedElementCount(input.dims()));
  if (input.data == nullptr && elems != 0 && !dims_only_) {
    return InvalidArgument("the values of input ", index, " are not in host memory");
  }
  return Status::Ok();
}

Result<ops::OperatorPtr> MakeShapeRule(const ops::OpInfo& info) {
  // What a version after those of the row changes concerns none of kHostTypes; kEntries ends where that is not known.
  for (int version = info.since_version(); version > 0; --version) {
    const ops::KernelRow* const row = ops::FindRow(info.domain(), info.op_type(), version);
    if (row != nullptr) return ops::MakeOperator(info, *row);
  }
  return Internal("no row for ", info.op_type(), "-", info.since_version());
}

Shape StridesOf(Dims dims) { return BroadcastStrides(dims, dims); }

Shape BroadcastStrides(Dims dims, Dims output) {
  Shape strides(static_cast<int>(output.size()), 0);
  int64_t stride = 1;
  for (int d = static_cast<int>(dims.size()) - 1, at = strides.rank() - 1; d >= 0; --d, --at) {
    const int64_t dim = dims[static_cast<size_t>(d)];
    if (dim != 1) strides[at] = stride;
    stride *= dim;
  }
  return strides;
}

}  // namespace cudaep::graph
