// The table of operators: one row a kernel, and the only list of operators in the project.
//
// Host kernel definitions, the support matrix, the parity report and test generation all read these rows. A row sits
// next to its operator and registers itself:
//
//   const RegisterRows kRows({
//       {.op = "Softmax", .since = 13, .until = 13, .types = {{"T", kFloatTypes}}, .make = Make<Softmax>},
//   });
#pragma once

#include <climits>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ops/operator.h"

namespace cudaep::ops {

inline constexpr const char* kOnnxDomain = "";
inline constexpr const char* kMicrosoftDomain = "com.microsoft";
inline constexpr const char* kNhwcDomain = "com.ms.internal.nhwc";
// The project's own, which models may use: no host has its schemas, so the library brings them
// (abi/custom_operators.h).
inline constexpr const char* kOwnDomain = "ort_cuda_ep";
// Of operators that compiled regions make (graph/pass): no model has them, and the host is not told of their rows.
inline constexpr const char* kFusedDomain = "cudaep.fused";

// A type constraint by its name in the operator's schema ("T", "Tind"); a wrong name never matches a node.
struct TypeConstraint {
  const char* name;
  DataTypeSet types;
};

// An input whose buffer an output may take over.
struct BufferPair {
  int input;
  int output;
};

struct KernelRow;
using OperatorFactory = Result<OperatorPtr> (*)(const OpInfo& info, const KernelRow& row);

// Who runs a row's nodes: an operator of ours, or the host's own control flow around kernels of ours. Rows of the
// latter have no factory.
enum class RowKind : uint8_t { kOperator, kIf, kLoop, kScan };

std::string_view RowKindName(RowKind kind);  // "operator", "if", "loop", "scan"

struct KernelRow {
  static constexpr int kNone = INT_MAX;

  RowKind kind = RowKind::kOperator;
  const char* domain = kOnnxDomain;
  const char* op = nullptr;
  int since = 1;  // first and last schema version the kernel was checked against
  int until = 1;
  std::vector<TypeConstraint> types;
  std::vector<int> host_inputs = {};      // inputs the operator reads in host memory,
  int host_inputs_from = kNone;           // and all from this one on (variadic inputs)
  std::vector<int> host_outputs = {};     // outputs it writes in host memory
  std::vector<BufferPair> aliases = {};   // the output is the input's buffer (Reshape)
  std::vector<BufferPair> extends = {};   // the output is the input with more written to it, or a copy (fused Conv)
  std::vector<BufferPair> in_place = {};  // the output may overwrite the input (element-wise, TensorScatter)
  // Shapes of outputs depend on data: InferShapes leaves dimensions open, and Enqueue asks for the output (select/).
  bool open_shapes = false;
  // The same inputs give the same outputs, and nobody else takes part: no random numbers, no collectives.
  bool pure = true;
  // Which of the operators that one class makes: an enumerator of the class's own.
  int variant = 0;
  OperatorFactory make = nullptr;  // of every kOperator row, and of no other

  bool IsHostInput(int index) const;
  template <class Enum>
  Enum VariantAs() const {
    return static_cast<Enum>(variant);
  }
};

// Every registered row, in link order. Stable after static initialisation.
const std::deque<KernelRow>& AllRows();

// The row that covers (domain, op, schema version), or null. Types are not looked at.
const KernelRow* FindRow(std::string_view domain, std::string_view op, int since_version);

// Why FindRow has none for the node.
Status MissingRow(const OpInfo& info);

// Creates the operator of a node, or says by name why not. Control flow has none.
Result<OperatorPtr> MakeOperator(const OpInfo& info, const KernelRow& row);

// Adds rows during static initialisation.
class RegisterRows {
 public:
  RegisterRows(std::initializer_list<KernelRow> rows);
  explicit RegisterRows(std::vector<KernelRow> rows);
};

// The factory of an operator class with a static Create(info) or Create(info, row) -> Result<std::unique_ptr<Op>>.
// The row tells operators of one class apart by `variant`.
template <class Op>
Result<OperatorPtr> Make(const OpInfo& info, const KernelRow& row) {
  if constexpr (std::is_invocable_v<decltype(&Op::Create), const OpInfo&, const KernelRow&>) {
    CUDAEP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, Op::Create(info, row));
    return OperatorPtr(std::move(op));
  } else {
    CUDAEP_ASSIGN_OR_RETURN(std::unique_ptr<Op> op, Op::Create(info));
    return OperatorPtr(std::move(op));
  }
}

}  // namespace cudaep::ops
