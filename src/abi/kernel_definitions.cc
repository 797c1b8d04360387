#include "abi/kernel_definitions.h"

#include "abi/api_version.h"
#include "abi/control_flow.h"
#include "abi/host_kernel.h"
#include "abi/type_info.h"
#include "core/log.h"
#include "ops/registry.h"

namespace cudaep::abi {
namespace {

struct BuilderTraits {
  using Type = OrtKernelDefBuilder*;
  static Type Null() { return nullptr; }
  static void Release(Type builder) { Host().ep->ReleaseKernelDefBuilder(builder); }
};
struct DefinitionTraits {
  using Type = OrtKernelDef*;
  static Type Null() { return nullptr; }
  static void Release(Type definition) { Host().ep->ReleaseKernelDef(definition); }
};
struct SchemaTraits {
  using Type = OrtOpSchema*;
  static Type Null() { return nullptr; }
  static void Release(Type schema) { Host().ep->ReleaseOpSchema(schema); }
};

// Of the variadic inputs that a row puts in host memory this many are declared; no model has more.
constexpr int kMostInputs = 1024;

std::vector<const OrtDataType*> HostTypes(DataTypeSet types) {
  std::vector<const OrtDataType*> host_types;
  for (int i = 0; i < kDataTypeCount; ++i) {
    if (!types.Contains(static_cast<DataType>(i))) continue;
    const OrtDataType* type = nullptr;
    if (FromOrt(Host().ep->GetTensorDataType(ToHostType(static_cast<DataType>(i)), &type)).ok()) {
      host_types.push_back(type);
    }
  }
  return host_types;
}

// A constraint under a name the schema does not have would make the kernel match nothing, silently.
Status CheckConstraintNames(const ops::KernelRow& row) {
  if (Host().version < kApiOpSchema) return Status::Ok();
  UniqueHandle<SchemaTraits> schema;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->GetOpSchema(row.op, row.until, row.domain, schema.Receive()));
  if (!schema) return Status::Ok();  // not known to this host; no model can hold the operator
  size_t count = 0;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->OpSchema_GetTypeConstraintCount(schema.get(), &count));
  for (const ops::TypeConstraint& wanted : row.types) {
    bool found = false;
    for (size_t i = 0; i < count && !found; ++i) {
      const OrtOpSchemaTypeConstraint* constraint = nullptr;
      const char* name = nullptr;
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->OpSchema_GetTypeConstraint(schema.get(), i, &constraint));
      CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->OpSchemaTypeConstraint_GetTypeParamName(constraint, &name));
      found = std::string_view(name) == wanted.name;
    }
    if (!found) return NotSupported("the host's schema has no type constraint '", wanted.name, "'");
  }
  return Status::Ok();
}

// The host wants parallel lists of input and output indices.
template <class F>
Status AddPairs(const std::vector<ops::BufferPair>& pairs, F&& add) {
  if (pairs.empty()) return Status::Ok();
  std::vector<int> inputs, outputs;
  for (const ops::BufferPair& pair : pairs) {
    inputs.push_back(pair.input);
    outputs.push_back(pair.output);
  }
  CUDAEP_RETURN_IF_ORT_ERROR(add(inputs.data(), outputs.data(), pairs.size()));
  return Status::Ok();
}

Status AddRow(OrtKernelRegistry* registry, const ops::KernelRow& row, const std::string& ep_name) {
  const OrtEpApi& ep = *Host().ep;
  CUDAEP_RETURN_IF_ERROR(CheckConstraintNames(row));
  UniqueHandle<BuilderTraits> builder;
  CUDAEP_RETURN_IF_ORT_ERROR(ep.CreateKernelDefBuilder(builder.Receive()));
  OrtKernelDefBuilder* b = builder.get();
  CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_SetOperatorType(b, row.op));
  CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_SetDomain(b, row.domain));
  CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_SetSinceVersion(b, row.since, row.until));
  CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_SetExecutionProvider(b, ep_name.c_str()));
  for (const ops::TypeConstraint& constraint : row.types) {
    const auto types = HostTypes(constraint.types);
    CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_AddTypeConstraint(b, constraint.name, types.data(), types.size()));
  }
  for (int index = 0; index < kMostInputs; ++index) {
    if (!row.IsHostInput(index)) continue;
    CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_SetInputMemType(b, static_cast<size_t>(index), OrtMemTypeCPUInput));
  }
  for (int index : row.host_outputs) {
    CUDAEP_RETURN_IF_ORT_ERROR(
        ep.KernelDefBuilder_SetOutputMemType(b, static_cast<size_t>(index), OrtMemTypeCPUOutput));
  }
  CUDAEP_RETURN_IF_ERROR(AddPairs(row.aliases, [&](const int* in, const int* out, size_t count) {
    return ep.KernelDefBuilder_AddInputOutputAliases(b, in, out, count);
  }));
  CUDAEP_RETURN_IF_ERROR(AddPairs(row.in_place, [&](const int* in, const int* out, size_t count) {
    return ep.KernelDefBuilder_AddInputOutputMutableAliases(b, in, out, count);
  }));
  UniqueHandle<DefinitionTraits> definition;
  CUDAEP_RETURN_IF_ORT_ERROR(ep.KernelDefBuilder_Build(b, definition.Receive()));
  const OrtKernelCreateFunc create =
      row.kind == ops::RowKind::kOperator ? HostKernel::Create : ControlFlowKernel(row.kind);
  CUDAEP_RETURN_IF_ORT_ERROR(
      ep.KernelRegistry_AddKernel(registry, definition.get(), create, const_cast<ops::KernelRow*>(&row)));
  return Status::Ok();
}

}  // namespace

Result<OrtKernelRegistry*> BuildKernelRegistry(const std::string& ep_name) {
  OrtKernelRegistry* registry = nullptr;
  CUDAEP_RETURN_IF_ORT_ERROR(Host().ep->CreateKernelRegistry(&registry));
  for (const ops::KernelRow& row : ops::AllRows()) {
    if (std::string_view(row.domain) == ops::kFusedDomain) continue;
    const Status status = AddRow(registry, row, ep_name);
    if (!status.ok()) {
      Log(LogLevel::kWarning, "no kernel for ", row.op, " versions ", row.since, " to ", row.until, ": ",
          status.message());
    }
  }
  return registry;
}

}  // namespace cudaep::abi
