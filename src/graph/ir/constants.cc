#include "graph/ir/constants.h"

#include "core/data_type_traits.h"
#include "core/float16.h"

namespace cudaep::graph::ir {

std::optional<std::vector<double>> NumbersOf(const Graph& graph, int value) {
  if (value < 0 || !graph.value(value).is_constant()) return std::nullopt;
  const ops::TensorView& view = graph.value(value).constant;
  std::vector<double> numbers;
  const bool known = VisitType<kFloatTypes>(view.type, false, [&]<class T>() {
    for (const T element : view.host<T>()) numbers.push_back(static_cast<double>(Load(element)));
    return true;
  });
  if (!known) return std::nullopt;
  return numbers;
}

std::optional<double> ScalarOf(const Graph& graph, int value) {
  const auto numbers = NumbersOf(graph, value);
  if (!numbers || numbers->size() != 1) return std::nullopt;
  return numbers->front();
}

std::optional<std::vector<int64_t>> IntsOf(const Graph& graph, int value) {
  if (value < 0 || !graph.value(value).is_constant()) return std::nullopt;
  const ops::TensorView& view = graph.value(value).constant;
  const auto all = [](const auto& elements) { return std::vector<int64_t>(elements.begin(), elements.end()); };
  if (view.type == DataType::kInt64) return all(view.host<int64_t>());
  if (view.type == DataType::kInt32) return all(view.host<int32_t>());
  return std::nullopt;
}

ops::HostTensor MakeNumbers(DataType type, const Shape& dims, const std::vector<double>& numbers) {
  ops::HostTensor tensor{.type = type, .dims = dims, .data = {}};
  tensor.data.resize(tensor.view().bytes());
  constexpr DataTypeSet kIntegers{DataType::kInt8, DataType::kUint8, DataType::kInt32, DataType::kInt64};
  VisitType<kFloatTypes | kIntegers>(type, false, [&]<class T>() {
    auto* const elements = reinterpret_cast<T*>(tensor.data.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        elements[i] = static_cast<T>(numbers[i]);
      } else {
        elements[i] = Store<T>(static_cast<ComputeType<T>>(numbers[i]));
      }
    }
    return true;
  });
  return tensor;
}

}  // namespace cudaep::graph::ir
