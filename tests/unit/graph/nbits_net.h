// A graph with products of few bits, for tests of what is made of them.
#pragma once

#include "decoder_net.h"

namespace cudaep::graph {

inline constexpr int64_t kInner = 32, kColumns = 16;

struct Weights {
  int64_t columns = kColumns, bits = 4, block = 16;
  bool zeros = false, groups = false, bias = false, constant = true;
  DataType zeros_type = DataType::kUint8;
  bool states_bits = true;  // else the attribute is left out
};

struct NBitsNet : Net {
  explicit NBitsNet(DataType of) : Net(of) {}

  int Product(int from, const Weights& w) {
    const int64_t blocks = kInner / w.block, zero_bytes = (blocks * w.bits + 7) / 8;
    const Shape weights{w.columns, blocks, w.block * w.bits / 8};
    std::vector<int> inputs{from, w.constant ? Of(DataType::kUint8, weights) : Fed(),
                            Constant("s", {w.columns * blocks})};
    const bool floats = w.zeros_type != DataType::kUint8;
    inputs.push_back(w.zeros ? Of(w.zeros_type, {w.columns * (floats ? blocks : zero_bytes)}) : -1);
    inputs.push_back(w.groups ? Of(DataType::kInt32, {kInner}) : -1);
    inputs.push_back(w.bias ? Constant("bias", {w.columns}) : -1);
    ops::Attributes attributes{{"K", kInner}, {"N", w.columns}, {"bits", w.bits}, {"block_size", w.block}};
    if (!w.states_bits) attributes.erase("bits");
    return Microsoft("MatMulNBits", std::move(inputs), std::move(attributes));
  }
  int Of(DataType element, Shape dims) {
    const DataType own = std::exchange(type, element);
    const int constant = Constant("c", std::move(dims));
    type = own;
    return constant;
  }
  int Fed() {
    const int value = Input("b", {{kColumns}, {2}, {8}});
    graph.value(value).type = DataType::kUint8;
    return value;
  }
  int Microsoft(const char* op, std::vector<int> inputs, ops::Attributes attributes = {}) {
    const int value = Open(op, 1, std::move(inputs), 3, std::move(attributes));
    graph.nodes.back().domain = ops::kMicrosoftDomain;
    return value;
  }
};

}  // namespace cudaep::graph
