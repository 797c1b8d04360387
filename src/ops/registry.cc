#include "ops/registry.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/strings.h"

namespace cudaep::ops {
namespace {

struct Registry {
  std::deque<KernelRow> rows;  // rows keep their address
  std::unordered_map<std::string, std::vector<const KernelRow*>> by_name;

  void Add(KernelRow row) {
    rows.push_back(std::move(row));
    by_name[Name(rows.back().domain, rows.back().op)].push_back(&rows.back());
  }
  static std::string Name(std::string_view domain, std::string_view op) { return StrCat(domain, ":", op); }
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

std::string DisplayName(const OpInfo& info) {
  return StrCat(info.domain().empty() ? "ai.onnx" : info.domain(), ".", info.op_type());
}

const std::vector<const KernelRow*>& RowsOf(std::string_view domain, std::string_view op) {
  static const std::vector<const KernelRow*> none;
  const auto found = TheRegistry().by_name.find(Registry::Name(domain, op));
  return found == TheRegistry().by_name.end() ? none : found->second;
}

}  // namespace

bool KernelRow::IsHostInput(int index) const {
  return index >= host_inputs_from || std::find(host_inputs.begin(), host_inputs.end(), index) != host_inputs.end();
}

RegisterRows::RegisterRows(std::initializer_list<KernelRow> rows) {
  for (const KernelRow& row : rows) TheRegistry().Add(row);
}

RegisterRows::RegisterRows(std::vector<KernelRow> rows) {
  for (KernelRow& row : rows) TheRegistry().Add(std::move(row));
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

const std::deque<KernelRow>& AllRows() { return TheRegistry().rows; }

const KernelRow* FindRow(std::string_view domain, std::string_view op, int since_version) {
  for (const KernelRow* row : RowsOf(domain, op)) {
    if (row->since <= since_version && since_version <= row->until) return row;
  }
  return nullptr;
}

Status MissingRow(const OpInfo& info) {
  std::string versions;
  for (const KernelRow* row : RowsOf(info.domain(), info.op_type())) {
    versions += StrCat(versions.empty() ? "" : ", ", row->since);
    if (row->until != row->since) versions += StrCat("-", row->until);
  }
  if (versions.empty()) return NotSupported("no kernel for ", DisplayName(info));
  return NotSupported("no kernel for version ", info.since_version(), " of ", DisplayName(info), ", only for ",
                      versions);
}

Result<OperatorPtr> MakeOperator(const OpInfo& info, const KernelRow& row) {
  if (row.kind != RowKind::kOperator) return Internal(info.op_type(), " is control flow: it has no operator");
  Result<OperatorPtr> op = row.make(info, row);
  if (!op.ok()) return std::move(op).status().WithContext(StrCat(info.op_type(), " node '", info.name(), "'"));
  return op;
}

}  // namespace cudaep::ops
