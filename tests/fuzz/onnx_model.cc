#include "onnx_model.h"

#include <bit>
#include <cstring>

namespace cudaep::fuzz {
namespace {

// ---- Writing. Field numbers are those of onnx.proto. ------------------------------------------------------------

class Writer {
 public:
  std::string bytes;

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
  void Integer(uint32_t field, int64_t value) {
    Varint(field << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Real(uint32_t field, float value) {
    Varint(field << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(uint32_t field, std::string_view text) {
    Varint(field << 3 | 2);
    Varint(text.size());
    bytes += text;
  }
};

std::string Bytes(const Tensor& tensor) {
  Writer out;
  for (int64_t dim : tensor.dims) out.Integer(1, dim);
  out.Integer(2, tensor.type);
  out.Text(8, tensor.name);
  out.Text(9, tensor.raw);
  return out.bytes;
}

std::string Bytes(const Attribute& attribute) {
  Writer out;
  out.Text(1, attribute.name);
  if (attribute.kind == kFloat) out.Real(2, attribute.real);
  if (attribute.kind == kInt) out.Integer(3, attribute.integer);
  if (attribute.kind == kString) out.Text(4, attribute.text);
  if (attribute.tensor) out.Text(5, Bytes(*attribute.tensor));
  for (float value : attribute.reals) out.Real(7, value);
  for (int64_t value : attribute.integers) out.Integer(8, value);
  for (const std::string& value : attribute.texts) out.Text(9, value);
  out.Integer(20, attribute.kind);
  return out.bytes;
}

std::string Bytes(const Node& node) {
  Writer out;
  for (const std::string& name : node.inputs) out.Text(1, name);
  for (const std::string& name : node.outputs) out.Text(2, name);
  out.Text(3, node.name);
  out.Text(4, node.op);
  for (const Attribute& attribute : node.attributes) out.Text(5, Bytes(attribute));
  if (!node.domain.empty()) out.Text(7, node.domain);
  return out.bytes;
}

std::string Bytes(const ValueInfo& value) {
  Writer tensor, type, out;
  tensor.Integer(1, value.type);
  if (value.shape) {
    Writer shape;
    for (const Dim& dim : *value.shape) {
      Writer one;
      if (dim.value) {
        one.Integer(1, *dim.value);
      } else if (!dim.symbol.empty()) {
        one.Text(2, dim.symbol);
      }
      shape.Text(1, one.bytes);
    }
    tensor.Text(2, shape.bytes);
  }
  type.Text(1, tensor.bytes);
  out.Text(1, value.name);
  out.Text(2, type.bytes);
  return out.bytes;
}

// ---- Reading ----------------------------------------------------------------------------------------------------

struct Field {
  uint32_t number = 0;
  uint64_t integer = 0;      // of a varint, or the bits of a fixed number
  std::string_view message;  // of a length-delimited field
  bool delimited = false;

  int64_t value() const { return static_cast<int64_t>(integer); }
  std::string text() const { return std::string(message); }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and at what is no field.
  bool Next(Field* field) {
    if (rest_.empty()) return false;
    const uint64_t key = Varint();
    *field = {.number = static_cast<uint32_t>(key >> 3)};
    switch (key & 7) {
      case 0:
        field->integer = Varint();
        break;
      case 1:
        field->integer = Fixed(8);
        break;
      case 2:
        field->delimited = true;
        field->message = Take(Varint());
        break;
      case 5:
        field->integer = Fixed(4);
        break;
      default:
        broken_ = true;
    }
    return !broken_;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = Take(1);
      if (broken_) return 0;
      value |= static_cast<uint64_t>(byte[0] & 0x7f) << shift;
      if ((byte[0] & 0x80) == 0) return value;
    }
    broken_ = true;
    return 0;
  }
  uint64_t Fixed(size_t bytes) {
    uint64_t value = 0;
    const std::string_view taken = Take(bytes);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  bool empty() const { return rest_.empty() || broken_; }
  bool broken() const { return broken_; }

 private:
  std::string_view Take(uint64_t count) {
    if (count > rest_.size()) broken_ = true;
    if (broken_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool broken_ = false;
};

// Repeated numbers come one by one or packed into one field.
void ReadIntegers(const Field& field, std::vector<int64_t>* out) {
  if (!field.delimited) return out->push_back(field.value());
  for (Reader packed(field.message); !packed.empty();) out->push_back(static_cast<int64_t>(packed.Varint()));
}

void ReadReals(const Field& field, std::vector<float>* out) {
  if (!field.delimited) return out->push_back(std::bit_cast<float>(static_cast<uint32_t>(field.integer)));
  for (Reader packed(field.message); !packed.empty();) {
    out->push_back(std::bit_cast<float>(static_cast<uint32_t>(packed.Fixed(4))));
  }
}

template <class F>
bool ForFields(std::string_view bytes, F&& use) {
  Reader reader(bytes);
  for (Field field; reader.Next(&field);) use(field);
  return !reader.broken();
}

Tensor ReadTensor(std::string_view bytes) {
  Tensor tensor;
  ForFields(bytes, [&](const Field& field) {
    if (field.number == 1) ReadIntegers(field, &tensor.dims);
    if (field.number == 2) tensor.type = field.value();
    if (field.number == 8) tensor.name = field.text();
    if (field.number == 9) tensor.raw = field.text();
  });
  return tensor;
}

Attribute ReadAttribute(std::string_view bytes) {
  Attribute attribute;
  ForFields(bytes, [&](const Field& field) {
    if (field.number == 1) attribute.name = field.text();
    if (field.number == 2) attribute.real = std::bit_cast<float>(static_cast<uint32_t>(field.integer));
    if (field.number == 3) attribute.integer = field.value();
    if (field.number == 4) attribute.text = field.text();
    if (field.number == 5) attribute.tensor = ReadTensor(field.message);
    if (field.number == 7) ReadReals(field, &attribute.reals);
    if (field.number == 8) ReadIntegers(field, &attribute.integers);
    if (field.number == 9) attribute.texts.push_back(field.text());
    if (field.number == 20) attribute.kind = field.value();
  });
  return attribute;
}

Node ReadNode(std::string_view bytes) {
  Node node;
  ForFields(bytes, [&](const Field& field) {
    if (field.number == 1) node.inputs.push_back(field.text());
    if (field.number == 2) node.outputs.push_back(field.text());
    if (field.number == 3) node.name = field.text();
    if (field.number == 4) node.op = field.text();
    if (field.number == 5) node.attributes.push_back(ReadAttribute(field.message));
    if (field.number == 7) node.domain = field.text();
  });
  return node;
}

std::vector<Dim> ReadShape(std::string_view bytes) {
  std::vector<Dim> shape;
  ForFields(bytes, [&](const Field& field) {
    if (field.number != 1) return;
    Dim& dim = shape.emplace_back();
    ForFields(field.message, [&](const Field& part) {
      if (part.number == 1) dim.value = part.value();
      if (part.number == 2) dim.symbol = part.text();
    });
  });
  return shape;
}

ValueInfo ReadValueInfo(std::string_view bytes) {
  ValueInfo value;
  ForFields(bytes, [&](const Field& field) {
    if (field.number == 1) value.name = field.text();
    if (field.number != 2) return;
    ForFields(field.message, [&](const Field& type) {
      if (type.number != 1) return;
      ForFields(type.message, [&](const Field& part) {
        if (part.number == 1) value.type = part.value();
        if (part.number == 2) value.shape = ReadShape(part.message);
      });
    });
  });
  return value;
}

}  // namespace

std::optional<Model> Parse(std::string_view bytes) {
  Model model;
  const bool whole = ForFields(bytes, [&](const Field& field) {
    if (field.number == 1) model.ir_version = field.value();
    if (field.number == 8) {
      auto& [domain, version] = model.opsets.emplace_back();
      ForFields(field.message, [&](const Field& part) {
        if (part.number == 1) domain = part.text();
        if (part.number == 2) version = part.value();
      });
    }
    if (field.number != 7) return;
    ForFields(field.message, [&](const Field& part) {
      if (part.number == 1) model.nodes.push_back(ReadNode(part.message));
      if (part.number == 5) model.initializers.push_back(ReadTensor(part.message));
      if (part.number == 11) model.inputs.push_back(ReadValueInfo(part.message));
      if (part.number == 12) model.outputs.push_back(ReadValueInfo(part.message));
      if (part.number == 13) model.values.push_back(ReadValueInfo(part.message));
    });
  });
  if (!whole) return std::nullopt;
  return model;
}

std::string Serialize(const Model& model) {
  Writer graph, out;
  for (const Node& node : model.nodes) graph.Text(1, Bytes(node));
  graph.Text(2, "graph");
  for (const Tensor& tensor : model.initializers) graph.Text(5, Bytes(tensor));
  for (const ValueInfo& value : model.inputs) graph.Text(11, Bytes(value));
  for (const ValueInfo& value : model.outputs) graph.Text(12, Bytes(value));
  for (const ValueInfo& value : model.values) graph.Text(13, Bytes(value));
  out.Integer(1, model.ir_version);
  out.Text(7, graph.bytes);
  for (const auto& [domain, version] : model.opsets) {
    Writer opset;
    if (!domain.empty()) opset.Text(1, domain);
    opset.Integer(2, version);
    out.Text(8, opset.bytes);
  }
  return out.bytes;
}

size_t ElementBytes(int64_t type) {
  switch (type) {
    case 2:   // uint8
    case 3:   // int8
    case 9:   // bool
    case 17:  // the four 8-bit floats
    case 18:
    case 19:
    case 20:
      return 1;
    case 4:   // uint16
    case 5:   // int16
    case 10:  // float16
    case 16:  // bfloat16
      return 2;
    case 1:   // float
    case 6:   // int32
    case 12:  // uint32
      return 4;
    case 7:   // int64
    case 11:  // double
    case 13:  // uint64
    case 14:  // complex64
      return 8;
    case 15:  // complex128
      return 16;
    default:
      return 0;
  }
}

}  // namespace cudaep::fuzz
