#include "ops/gemm/norm_products.h"

#include <algorithm>

namespace cudaep::ops {
namespace {

constexpr size_t kNumbers = 4;  // of a product

}  // namespace

Result<NormProducts> NormProducts::Read(const OpInfo& info, const char* attribute) {
  const std::vector<int64_t> numbers = info.IntsOr(attribute, {});
  if (numbers.size() % kNumbers != 0) return InvalidArgument(attribute, " has ", numbers.size(), " numbers");
  std::vector<kernels::ManyRowsProduct> products;
  for (size_t i = 0; i < numbers.size(); i += kNumbers) {
    const bool is_known = numbers[i + 2] >= 0 && numbers[i + 2] < kActivationCount;
    const auto activation = static_cast<Activation>(is_known ? numbers[i + 2] : 0);
    const bool ends = is_known && (kernels::IsNoneOrRelu(activation) || activation == Activation::kGeluErf);
    if (numbers[i] <= 0 || numbers[i + 1] <= 0 || !ends) {
      return InvalidArgument(attribute, " has a product of ", numbers[i], " columns, ", numbers[i + 1],
                             " inner elements and activation ", numbers[i + 2]);
    }
    products.push_back({.n = numbers[i],
                        .k = numbers[i + 1],
                        .bias = true,
                        .residual = numbers[i + 3] != 0,
                        .activation = activation,
                        .constant_b = true});
  }
  return NormProducts(std::move(products));
}

std::vector<int64_t> NormProducts::AsAttribute() const {
  std::vector<int64_t> numbers;
  for (const kernels::ManyRowsProduct& p : products_) {
    numbers.insert(numbers.end(), {p.n, p.k, static_cast<int64_t>(p.activation), p.residual ? 1 : 0});
  }
  return numbers;
}

bool NormProducts::DoTheNorm(DataType type, int64_t rows, const device::DeviceInfo& device) const {
  return !products_.empty() && std::ranges::all_of(products_, [&](kernels::ManyRowsProduct product) {
    product.type = type, product.m = rows;
    return PlanNormProduct(product, device).has_value();
  });
}

std::optional<kernels::WarpgroupPlan> PlanNormProduct(const kernels::ManyRowsProduct& product,
                                                      const device::DeviceInfo& device) {
  auto plan = kernels::PlanManyRows(product, device);
  if (!plan || !kernels::IsFlat(plan->tiles)) return std::nullopt;
  const bool has_one_each =
      kernels::WarpgroupTileCount(product.m, product.n, plan->tiles) * plan->splits == plan->blocks;
  return has_one_each ? plan : std::nullopt;
}

}  // namespace cudaep::ops
