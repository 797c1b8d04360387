#include "mutate.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

namespace cudaep::fuzz {
namespace {

constexpr size_t kMaxTensorBytes = size_t{1} << 18;

// Bytes of a shape, or more than any limit where they cannot be told.
size_t BytesOf(const std::vector<int64_t>& dims, int64_t type) {
  size_t bytes = ElementBytes(type);
  for (int64_t dim : dims) {
    if (dim < 0 || (dim != 0 && bytes > kMaxTensorBytes / static_cast<size_t>(dim))) return SIZE_MAX;
    bytes *= static_cast<size_t>(dim);
  }
  return bytes;
}

std::string DrawData(int64_t type, size_t bytes, Random& random) {
  std::string raw(bytes, '\0');
  const auto fill = [&](auto draw) {
    using T = decltype(draw());
    for (size_t at = 0; at + sizeof(T) <= bytes; at += sizeof(T)) {
      const T value = draw();
      std::memcpy(raw.data() + at, &value, sizeof(value));
    }
  };
  if (type == 1) fill([&] { return random.Real(); });
  if (type == 7) fill([&] { return random.Integer(); });
  if (type == 6) fill([&] { return static_cast<int32_t>(random.Integer()); });
  if (type == 11) fill([&] { return static_cast<double>(random.Real()); });
  if (type == 9) fill([&] { return static_cast<uint8_t>(random.Below(2)); });
  if (type != 1 && type != 6 && type != 7 && type != 9 && type != 11) {
    fill([&] { return static_cast<uint8_t>(random.Next()); });
  }
  return raw;
}

// Repeats or cuts the data to what the shape says, where that is a moderate size.
void FitData(Tensor* tensor, Random& random) {
  const size_t bytes = BytesOf(tensor->dims, tensor->type);
  if (bytes > kMaxTensorBytes || bytes == tensor->raw.size()) return;
  const std::string old = tensor->raw;
  if (old.empty()) {
    tensor->raw = DrawData(tensor->type, bytes, random);
    return;
  }
  while (tensor->raw.size() < bytes) tensor->raw += old.substr(0, bytes - tensor->raw.size());
  tensor->raw.resize(bytes);
}

template <class T, class F>
void ChangeList(std::vector<T>* list, Random& random, F&& draw) {
  const size_t at = random.Below(list->size() + 1);
  const auto place = list->begin() + static_cast<ptrdiff_t>(at);
  if (at == list->size() || random.OneIn(5)) {
    list->insert(place, draw());
  } else if (random.OneIn(4)) {
    list->erase(place);
  } else {
    *place = draw();
  }
  if (random.OneIn(40)) list->resize(random.Below(70), draw());
}

// ---- Attributes -------------------------------------------------------------------------------------------------

void ChangeValue(Attribute* attribute, const Pool& pool, Random& random) {
  attribute->integer = random.Integer();
  attribute->real = random.Real();
  // A text that another operator knows, else any.
  attribute->text = random.Text();
  for (int i = 0; i < 20 && !random.OneIn(4); ++i) {
    const Attribute& other = random.Pick(pool.attributes);
    if (other.kind != kString) continue;
    attribute->text = other.text;
    break;
  }
  if (attribute->kind == kInts) ChangeList(&attribute->integers, random, [&] { return random.Integer(); });
  if (attribute->kind == kFloats) ChangeList(&attribute->reals, random, [&] { return random.Real(); });
  if (attribute->kind == kStrings) ChangeList(&attribute->texts, random, [&] { return random.Text(); });
}

void ChangeKind(Attribute* attribute, const Pool& pool, Random& random) {
  attribute->kind = random.Pick<int64_t>({kFloat, kInt, kString, kTensor, kFloats, kInts, kStrings, 0, 5, 77});
  if (!random.OneIn(3)) {
    attribute->integers.clear();
    attribute->reals.clear();
    attribute->texts.clear();
  }
  ChangeValue(attribute, pool, random);
}

void ChangeAttributes(Model& model, const Pool& pool, Random& random) {
  if (model.nodes.empty()) return;
  std::vector<Attribute>& list = model.nodes[random.Below(model.nodes.size())].attributes;
  if (list.empty() || random.OneIn(8)) {
    list.push_back(random.Pick(pool.attributes));
    return;
  }
  const size_t at = random.Below(list.size());
  switch (random.Below(12)) {
    case 0:
      list.erase(list.begin() + static_cast<ptrdiff_t>(at));
      break;
    case 1: {
      const Attribute copy = list[at];
      list.push_back(copy);
      break;
    }
    case 2:
      ChangeKind(&list[at], pool, random);
      break;
    case 3:
      list[at].name = random.OneIn(2) ? random.Pick(pool.attributes).name : random.Text();
      break;
    default:
      ChangeValue(&list[at], pool, random);
  }
}

// ---- Values -----------------------------------------------------------------------------------------------------

void ChangeDims(std::vector<int64_t>* dims, Random& random) {
  ChangeList(dims, random, [&] { return random.OneIn(6) ? random.Integer() : random.Between(0, 7); });
}

ValueInfo* Find(std::vector<ValueInfo>& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const ValueInfo& value) { return value.name == name; });
  return found == list.end() ? nullptr : &*found;
}

// The declared shape of a graph input follows its default value, or is left open.
void FollowShape(Model& model, const Tensor& tensor, Random& random) {
  ValueInfo* value = Find(model.inputs, tensor.name);
  if (value == nullptr || random.OneIn(10)) return;
  value->type = tensor.type;
  value->shape.emplace();
  for (int64_t dim : tensor.dims) {
    value->shape->push_back(random.OneIn(3) ? Dim{std::nullopt, "n"} : Dim{dim, ""});
  }
}

void ChangeTensor(Model& model, const Pool&, Random& random) {
  if (model.initializers.empty()) return;
  Tensor& tensor = model.initializers[random.Below(model.initializers.size())];
  switch (random.Below(8)) {
    case 0:
      tensor.raw.resize(random.Below(40));  // not what the shape says
      return;
    case 1:
    case 2:
      tensor.raw = DrawData(tensor.type, tensor.raw.size(), random);
      return;
    case 3:
      tensor.type = random.OneIn(5) ? random.Between(-1, 30) : random.Between(1, 20);
      break;
    case 4:
      if (!tensor.dims.empty()) std::swap(tensor.dims[random.Below(tensor.dims.size())], tensor.dims.back());
      break;
    default:
      ChangeDims(&tensor.dims, random);
  }
  FitData(&tensor, random);
  FollowShape(model, tensor, random);
}

void ChangeInfo(Model& model, const Pool&, Random& random) {
  std::vector<ValueInfo>* const list = random.Pick({&model.inputs, &model.inputs, &model.outputs, &model.values});
  if (list->empty()) return;
  ValueInfo& value = (*list)[random.Below(list->size())];
  switch (random.Below(6)) {
    case 0:
      value.type = random.Between(-1, 24);
      break;
    case 1:
      value.shape.reset();
      break;
    case 2:
      value.name = random.OneIn(2) ? random.Text() : random.Pick(*list).name;
      break;
    default: {
      if (!value.shape) value.shape.emplace();
      const auto draw = [&] {
        if (random.OneIn(3)) return Dim{std::nullopt, random.OneIn(3) ? "" : "n"};
        return Dim{random.OneIn(6) ? random.Integer() : random.Between(0, 7), ""};
      };
      ChangeList(&*value.shape, random, draw);
    }
  }
}

// A graph input becomes a constant, or loses its default value.
void ChangeRole(Model& model, const Pool&, Random& random) {
  if (!model.inputs.empty() && random.OneIn(2)) {
    model.inputs.erase(model.inputs.begin() + static_cast<ptrdiff_t>(random.Below(model.inputs.size())));
  } else if (!model.initializers.empty()) {
    const size_t at = random.Below(model.initializers.size());
    const Tensor& tensor = model.initializers[at];
    if (Find(model.inputs, tensor.name) == nullptr && !random.OneIn(3)) {
      model.inputs.push_back({tensor.name, tensor.type, std::nullopt});
    } else {
      model.initializers.erase(model.initializers.begin() + static_cast<ptrdiff_t>(at));
    }
  }
}

// ---- Graph ------------------------------------------------------------------------------------------------------

std::string AnyName(const Model& model, Random& random) {
  if (random.OneIn(8)) return random.OneIn(2) ? "" : "nowhere";
  const Node& node = random.Pick(model.nodes);
  const auto& list = random.OneIn(2) || node.inputs.empty() ? node.outputs : node.inputs;
  return list.empty() ? "nowhere" : random.Pick(list);
}

void ChangeNode(Model& model, const Pool& pool, Random& random) {
  if (model.nodes.empty()) return;
  Node& node = model.nodes[random.Below(model.nodes.size())];
  const std::string name = AnyName(model, random);  // also one of a later node: cycles
  switch (random.Below(9)) {
    case 0:
    case 1:
      ChangeList(&node.inputs, random, [&] { return name; });
      break;
    case 2:
      ChangeList(&node.outputs, random, [&] { return random.OneIn(2) ? name : "fresh" + name; });
      break;
    case 3:
      std::tie(node.domain, node.op) = random.Pick(pool.operators);
      break;
    case 4: {
      const Node copy = node;
      model.nodes.insert(model.nodes.begin() + static_cast<ptrdiff_t>(random.Below(model.nodes.size())), copy);
      break;
    }
    case 5:
      node.name = random.Text();
      break;
    case 6:
      if (!node.inputs.empty())
        std::swap(random.OneIn(2) ? node.inputs.front() : node.inputs.back(),
                  node.inputs[random.Below(node.inputs.size())]);
      break;
    case 7:
      model.nodes.erase(model.nodes.begin() + (&node - model.nodes.data()));
      break;
    default:
      if (random.OneIn(4)) node.domain = random.OneIn(2) ? random.Text() : "com.ms.internal.nhwc";
  }
}

void ChangeVersions(Model& model, const Pool&, Random& random) {
  if (random.OneIn(10)) model.ir_version = random.Integer();
  if (model.opsets.empty() || random.OneIn(10)) model.opsets.emplace_back(random.Text(), random.Integer());
  auto& [domain, version] = model.opsets[random.Below(model.opsets.size())];
  version = random.OneIn(10) ? random.Integer() : random.Between(1, 27);
}

// Adds `other`, whose names get a prefix, and feeds a value of `model` into it.
void Join(Model& model, Model other, Random& random) {
  const std::string prefix = "j" + std::to_string(model.nodes.size()) + "_";
  const auto rename = [&](std::string* name) {
    if (!name->empty()) *name = prefix + *name;
  };
  for (Node& node : other.nodes) {
    rename(&node.name);
    for (std::string& name : node.inputs) rename(&name);
    for (std::string& name : node.outputs) rename(&name);
  }
  for (Tensor& tensor : other.initializers) rename(&tensor.name);
  for (auto* list : {&other.inputs, &other.outputs, &other.values}) {
    for (ValueInfo& value : *list) rename(&value.name);
  }
  if (!model.outputs.empty() && !other.inputs.empty()) {
    const ValueInfo from = random.Pick(model.outputs);
    const size_t at = random.Below(other.inputs.size());
    const std::string replaced = other.inputs[at].name;
    for (Node& node : other.nodes) std::replace(node.inputs.begin(), node.inputs.end(), replaced, from.name);
    other.inputs.erase(other.inputs.begin() + static_cast<ptrdiff_t>(at));
    std::erase_if(other.initializers, [&](const Tensor& tensor) { return tensor.name == replaced; });
    if (random.OneIn(2)) std::erase_if(model.outputs, [&](const ValueInfo& value) { return value.name == from.name; });
  }
  const auto append = [](auto* to, auto& from) { to->insert(to->end(), from.begin(), from.end()); };
  append(&model.nodes, other.nodes);
  append(&model.initializers, other.initializers);
  append(&model.inputs, other.inputs);
  append(&model.outputs, other.outputs);
  append(&model.values, other.values);
  for (const auto& opset : other.opsets) {
    const auto same = [&](const auto& entry) { return entry.first == opset.first; };
    const auto found = std::find_if(model.opsets.begin(), model.opsets.end(), same);
    if (found == model.opsets.end()) {
      model.opsets.push_back(opset);
    } else {
      found->second = std::max(found->second, opset.second);
    }
  }
}

}  // namespace

Pool::Pool(std::vector<Model> seeds) : models(std::move(seeds)) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Model& model : models) {
    for (const Node& node : model.nodes) {
      attributes.insert(attributes.end(), node.attributes.begin(), node.attributes.end());
      if (seen.emplace(node.domain, node.op).second) operators.emplace_back(node.domain, node.op);
    }
  }
}

Model DrawModel(const Pool& pool, Random& random) {
  using Change = void (*)(Model&, const Pool&, Random&);
  static const std::vector<Change> kChanges = {ChangeAttributes, ChangeAttributes, ChangeAttributes, ChangeTensor,
                                               ChangeTensor,     ChangeTensor,     ChangeInfo,       ChangeRole,
                                               ChangeNode,       ChangeNode,       ChangeVersions};
  Model model = random.Pick(pool.models);
  while (random.OneIn(3) && model.nodes.size() < 12) Join(model, random.Pick(pool.models), random);
  for (int i = 0; i < 8 && !random.OneIn(3); ++i) random.Pick(kChanges)(model, pool, random);
  return model;
}

void ChangeBytes(std::string* bytes, Random& random) {
  for (size_t i = 0, count = 1 + random.Below(8); i < count && !bytes->empty(); ++i) {
    const size_t at = random.Below(bytes->size());
    switch (random.Below(5)) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random.Below(8)));
        break;
      case 1:
        (*bytes)[at] = static_cast<char>(random.Next());
        break;
      case 2:
        bytes->erase(at, random.Below(16));
        break;
      case 3:
        bytes->insert(at, bytes->substr(random.Below(bytes->size()), random.Below(64)));
        break;
      default:
        if (random.OneIn(4)) bytes->resize(at);
    }
  }
}

}  // namespace cudaep::fuzz
