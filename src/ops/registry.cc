#include "ops/registry.h"

namespace cudaep::ops {
namespace {

std::vector<KernelRow>& Rows() {
  static std::vector<KernelRow> rows;
  return rows;
}

std::string_view DisplayDomain(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

}  // namespace

RegisterRows::RegisterRows(std::initializer_list<KernelRow> rows) {
  Rows().insert(Rows().end(), rows.begin(), rows.end());
}

RegisterRows::RegisterRows(std::vector<KernelRow> rows) {
  Rows().insert(Rows().end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

std::string_view RowKindName(RowKind kind) {
  switch (kind) {
    case RowKind::kOperator:
      return "operator";
    case RowKind::kIf:
      return "if";
    case RowKind::kLoop:
      return "loop";
    case RowKind::kScan:
      return "scan";
  }
  return "";
}

std::span<const KernelRow> AllRows() { return Rows(); }

const KernelRow* FindRow(std::string_view domain, std::string_view op, int since_version) {
  for (const KernelRow& row : Rows()) {
    if (row.op == op && row.domain == domain && row.since <= since_version && since_version <= row.until) return &row;
  }
  return nullptr;
}

Result<OperatorPtr> MakeOperator(const OpInfo& info) {
  const KernelRow* row = FindRow(info.domain(), info.op_type(), info.since_version());
  if (row == nullptr) {
    return NotSupported("no kernel for ", DisplayDomain(info.domain()), ".", info.op_type(), " version ",
                        info.since_version());
  }
  if (row->kind != RowKind::kOperator) return Internal(info.op_type(), " is control flow: it has no operator");
  Result<OperatorPtr> op = row->make(info);
  if (!op.ok()) return std::move(op).status().WithContext(StrCat(info.op_type(), " node '", info.name(), "'"));
  return op;
}

}  // namespace cudaep::ops
