#include "graph/shape/host_operator.h"

#include "core/strings.h"
#include "graph/shape/evaluation.h"
#include "ops/registry.h"

namespace cudaep::graph {
namespace {

Result<const HostEntry*> FindEntry(const ops::OpInfo& info) {
  const int version = info.since_version();
  bool other_version = false;
  for (const HostEntries entries :
       {BinaryEntries(), GeneratorEntries(), MovementEntries(), ReductionEntries(), UnaryEntries()}) {
    for (const HostEntry& entry : entries) {
      if (!info.domain().empty() || info.op_type() != entry.op) continue;
      if (version >= entry.since && version <= entry.until) return &entry;
      other_version = true;
    }
  }
  if (other_version) return NotSupported("version ", version, " of ", info.op_type(), " is not evaluated on the host");
  return NotSupported(info.domain().empty() ? "ai.onnx" : info.domain(), ".", info.op_type(),
                      " is not evaluated on the host");
}

}  // namespace

bool ReadsDimsOnly(const ops::OpInfo& info) {
  return info.domain().empty() && (info.op_type() == "Shape" || info.op_type() == "Size");
}

bool GrowsWithValues(const ops::OpInfo& info) {
  const std::string_view op = info.op_type();
  return info.domain().empty() && (op == "Range" || op == "ConstantOfShape" || op == "Expand" || op == "Tile");
}

Result<std::unique_ptr<HostOperator>> MakeHostOperator(const ops::OpInfo& info) {
  CUDAEP_ASSIGN_OR_RETURN(const HostEntry* const entry, FindEntry(info));
  for (int i = 0; i < info.input_count(); ++i) {
    if (info.has_input(i) && !ReadsDimsOnly(info) && !kHostTypes.Contains(info.input_type(i))) {
      return NotSupported(entry->op, " of element type ", DataTypeName(info.input_type(i)),
                          " is not evaluated on the host");
    }
  }
  for (int i = 0; i < entry->inputs; ++i) {
    if (!info.has_input(i)) return InvalidArgument(entry->op, " has no input ", i);
  }
  return entry->make(info);
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
  // What a version after those of the row changes concerns none of kHostTypes; entries end where that is not known.
  for (int version = info.since_version(); version > 0; --version) {
    const ops::KernelRow* const row = ops::FindRow(info.domain(), info.op_type(), version);
    if (row != nullptr) return ops::MakeOperator(info, *row);
  }
  return Internal("no row for ", info.op_type(), "-", info.since_version());
}

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
