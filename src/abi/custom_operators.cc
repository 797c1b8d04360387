#include "abi/custom_operators.h"

#include <algorithm>
#include <vector>

#include "abi/type_info.h"
#include "ops/collective/collective_shape.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

struct TensorInfoTraits {
  using Type = OrtTensorTypeAndShapeInfo*;
  static Type Null() { return nullptr; }
  static void Release(Type info) { Host().ort->ReleaseTensorTypeAndShapeInfo(info); }
};

std::optional<int64_t> IntAttribute(const OrtShapeInferContext* context, const char* name) {
  const OrtOpAttr* attribute = nullptr;
  int64_t value = 0;
  size_t bytes = 0;
  if (!FromOrt(Host().ort->ShapeInferContext_GetAttribute(context, name, &attribute)).ok() || attribute == nullptr ||
      !FromOrt(Host().ort->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, sizeof(value), &bytes)).ok()) {
    return std::nullopt;
  }
  return value;
}

// Symbolic dimensions keep their names where the operator leaves them as they are. Of a scalar nothing is said: the
// host shows a tensor of unknown rank as one.
Status InferShape(const ops::KernelRow& row, OrtShapeInferContext* context) {
  const OrtApi& ort = *Host().ort;
  CUDAEP_ASSIGN_OR_RETURN(const ops::CollectiveShape collective,
                          ops::ReadCollectiveShape(row.VariantAs<ops::Collective>(),
                                                   [&](const char* name) { return IntAttribute(context, name); }));
  OrtTensorTypeAndShapeInfo* input = nullptr;  // the context's
  size_t rank = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.ShapeInferContext_GetInputTypeShape(context, 0, &input));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetDimensionsCount(input, &rank));
  if (rank == 0) return Status::Ok();
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank, "");
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetDimensions(input, dims.data(), rank));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetSymbolicDimensions(input, names.data(), rank));
  for (int64_t& dim : dims) dim = std::max(dim, kUnknownDim);
  CUDAEP_ASSIGN_OR_RETURN(const Shape shape, collective.Infer(dims));
  for (size_t d = 0; d < rank; ++d) {
    if (collective.ChangesAxis(static_cast<int>(d), static_cast<int>(rank))) names[d] = "";
  }
  UniqueHandle<TensorInfoTraits> output;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.CreateTensorTypeAndShapeInfo(output.Receive()));
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  CUDAEP_RETURN_IF_ORT_ERROR(ort.GetTensorElementType(input, &type));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.SetTensorElementType(output.get(), type));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.SetDimensions(output.get(), shape.data(), rank));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.SetSymbolicDimensions(output.get(), names.data(), rank));
  CUDAEP_RETURN_IF_ORT_ERROR(ort.ShapeInferContext_SetOutputTypeShape(context, 0, output.get()));
  return Status::Ok();
}

}  // namespace

struct CustomOperators::Schema : OrtCustomOp {
  explicit Schema(const ops::KernelRow& of) : OrtCustomOp{}, row(of) {
    version = Host().version;
    GetName = [](const OrtCustomOp* op) { return RowOf(op).op; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    // Any type; the output's is the input's.
    GetInputType = [](const OrtCustomOp*, size_t) { return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; };
    GetOutputType = GetInputType;
    GetInputTypeCount = [](const OrtCustomOp*) -> size_t { return 1; };
    GetOutputTypeCount = GetInputTypeCount;
    GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
    GetOutputCharacteristic = GetInputCharacteristic;
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return OrtMemTypeDefault; };
    GetStartVersion = [](const OrtCustomOp* op) { return RowOf(op).since; };
    GetEndVersion = [](const OrtCustomOp* op) { return RowOf(op).until; };
    InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) -> OrtStatus* {
      try {
        return ToOrt(InferShape(RowOf(op), context).WithContext(RowOf(op).op));
      } catch (...) {
        return StatusOfException();
      }
    };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo*, void** kernel) -> OrtStatus* {
      *kernel = nullptr;
      return ToOrt(NotSupported(RowOf(op).op, " of domain ", RowOf(op).domain, " runs on a GPU alone"));
    };
    KernelComputeV2 = [](void*, OrtKernelContext*) -> OrtStatus* { return ToOrt(Internal("no kernel")); };
    KernelDestroy = [](void*) {};
  }
  static const ops::KernelRow& RowOf(const OrtCustomOp* op) { return static_cast<const Schema*>(op)->row; }

  const ops::KernelRow& row;
};

Result<std::unique_ptr<CustomOperators>> CustomOperators::Create() {
  std::unique_ptr<CustomOperators> made(new CustomOperators);
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->CreateCustomOpDomain(ops::kOwnDomain, &made->domain_));
  for (const ops::KernelRow& row : ops::AllRows()) {
    if (std::string_view(row.domain) != ops::kOwnDomain) continue;
    CUDAEP_RETURN_IF_ORT_ERROR(Host().ort->CustomOpDomain_Add(made->domain_, &made->schemas_.emplace_back(row)));
  }
  return made;
}

CustomOperators::~CustomOperators() {
  if (domain_ != nullptr) Host().ort->ReleaseCustomOpDomain(domain_);
}

}  // namespace cudaep::abi
