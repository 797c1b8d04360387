#include "registry_json.h"

#include "core/strings.h"
#include "ops/registry.h"
#include "runtime/options_table.h"

namespace cudaep::test {
namespace {

template <class List, class Item>
std::string JsonList(const List& list, const Item& item) {
  std::string out = "[";
  for (const auto& value : list) out += (out.size() == 1 ? "" : ",") + item(value);
  return out + "]";
}

std::string Numbers(const std::vector<int>& list) {
  return JsonList(list, [](int value) { return std::to_string(value); });
}

std::string Pairs(const std::vector<ops::BufferPair>& list) {
  return JsonList(list, [](const ops::BufferPair& pair) { return StrCat("[", pair.input, ",", pair.output, "]"); });
}

std::string Codes(DataTypeSet types) {
  std::vector<int> codes;
  for (int code = 0; code < kDataTypeCount; ++code) {
    if (types.Contains(static_cast<DataType>(code))) codes.push_back(code);
  }
  return Numbers(codes);
}

// Of variadic ones as many as a test may have.
std::vector<int> HostInputs(const ops::KernelRow& row) {
  std::vector<int> indices;
  for (int index = 0; index < 32; ++index) {
    if (row.IsHostInput(index)) indices.push_back(index);
  }
  return indices;
}

// Names in rows are identifiers, so nothing needs an escape.
std::string RowJson(const ops::KernelRow& row) {
  std::string types;
  for (const ops::TypeConstraint& constraint : row.types) {
    types += StrCat(types.empty() ? "" : ",", "\"", constraint.name, "\":", Codes(constraint.types));
  }
  return StrCat("{\"kind\":\"", ops::RowKindName(row.kind), "\",\"domain\":\"", row.domain, "\",\"op\":\"", row.op,
                "\",\"since\":", row.since, ",\"until\":", row.until, ",\"types\":{", types,
                "},\"host_inputs\":", Numbers(HostInputs(row)), ",\"host_outputs\":", Numbers(row.host_outputs),
                ",\"aliases\":", Pairs(row.aliases), ",\"in_place\":", Pairs(row.in_place), "}");
}

const char* KindName(OptionKind kind) {
  switch (kind) {
    case OptionKind::kOurs:
      return "ours";
    case OptionKind::kUpstream:
      return "upstream";
    case OptionKind::kIgnored:
      return "ignored";
  }
  return "";
}

// Texts of the table have no quotes or backslashes.
std::string OptionJson(const OptionRow& row) {
  return StrCat("{\"name\":\"", row.name, "\",\"accepts\":\"", row.accepts, "\",\"default\":\"", row.default_value,
                "\",\"doc\":\"", row.doc, "\",\"kind\":\"", KindName(row.kind), "\"}");
}

}  // namespace

std::string OptionsJson() { return JsonList(OptionTable(), OptionJson); }

std::string RegistryJson() { return JsonList(ops::AllRows(), RowJson); }

}  // namespace cudaep::test
