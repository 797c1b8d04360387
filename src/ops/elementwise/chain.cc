// Elementwise, which compiled regions make of nodes that work element by element: results of one shape, computed in
// fp32 from inputs that broadcast to it. Attributes, as chain_program.h explains them:
//   "functions": the terms' functions; "operands": three values a term, -1 where it has fewer, or a number;
//   "numbers": two a term; "results": the values that leave, the last term first.
#include "ops/elementwise/chain_program.h"
#include "ops/elementwise/model_broadcast.h"
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

using kernels::kMaxChainInputs;
using kernels::kMaxChainOutputs;

struct ChainPlan : Plan {
  kernels::Broadcast<kMaxChainInputs> broadcast;
  size_t shared_bytes = 0;  // that a block may have
};

Result<Chain> ReadChain(const OpInfo& info) {
  Chain chain{.inputs = info.input_count()};
  const auto functions = info.Strings("functions").value_or(std::vector<std::string>());
  const auto operands = info.IntsOr("operands", {});
  const auto numbers = info.Floats("numbers").value_or(std::vector<float>());
  const size_t terms = functions.size();
  if (terms == 0 || operands.size() != terms * kMaxChainOperands || numbers.size() != terms * kChainNumbers) {
    return InvalidArgument(terms, " functions with ", operands.size(), " operands and ", numbers.size(), " numbers");
  }
  for (size_t t = 0; t < terms; ++t) {
    ChainTerm& term = chain.terms.emplace_back();
    term.function = FindChainFunction(functions[t]);
    if (term.function == nullptr) return NotSupported("function '", functions[t], "' of a chain");
    const int values = chain.inputs + static_cast<int>(t);
    bool any = false;
    for (size_t i = 0; i < static_cast<size_t>(term.function->operands); ++i) {
      const int64_t operand = operands[t * kMaxChainOperands + i];
      const bool is_number = operand == ChainTerm::kNumber && (i > 0 || term.function->operands == 2);
      if (!is_number && (operand < 0 || operand >= values)) {
        return InvalidArgument("operand ", operand, " of ", functions[t], ", which has ", values, " values before it");
      }
      term.operands[i] = static_cast<int>(operand);
      any = any || !is_number;
    }
    if (!any) return InvalidArgument(functions[t], " of numbers alone");
    for (size_t i = 0; i < kChainNumbers; ++i) term.numbers[i] = numbers[t * kChainNumbers + i];
    const int table = term.table();
    if (table >= chain.inputs || (table < 0 && term.function->code == kernels::ChainCode::kLookUp)) {
      return InvalidArgument("a table that is no input");
    }
    if (term.function->code == kernels::ChainCode::kQuantize && !MayQuantizeBy(term.numbers[0])) {
      return NotSupported("a scale of ", term.numbers[0]);
    }
  }
  for (const int64_t result : info.IntsOr("results", {})) {
    if (result < chain.inputs || result >= chain.inputs + static_cast<int64_t>(terms)) {
      return InvalidArgument("result ", result, " is no term");
    }
    chain.results.push_back(static_cast<int>(result));
  }
  return chain;
}

bool IsTable(const Chain& chain, int input) {
  return std::ranges::any_of(chain.terms, [&](const ChainTerm& term) { return term.table() == input; });
}

Status CheckTable(const OpInfo& info, const Chain& chain, int input) {
  if (!kernels::kChainTableTypes.Contains(info.input_type(input))) {
    return NotSupported("a table of type ", DataTypeName(info.input_type(input)));
  }
  const bool is_operand = std::ranges::any_of(chain.terms, [&](const ChainTerm& term) {
    return std::ranges::count(term.operands.begin(), term.operands.begin() + term.function->operands, input) >
           (term.table() == input ? 1 : 0);
  });
  return is_operand ? InvalidArgument("input ", input, " is a table and an operand") : Status::Ok();
}

Status CheckTensors(const OpInfo& info, const Chain& chain) {
  if (info.input_count() > kMaxChainInputs || info.output_count() > kMaxChainOutputs) {
    return NotSupported(info.input_count(), " inputs and ", info.output_count(), " outputs; ", kMaxChainInputs, " and ",
                        kMaxChainOutputs, " are offered");
  }
  if (chain.results.size() != static_cast<size_t>(info.output_count()) ||
      chain.results.front() != chain.inputs + static_cast<int>(chain.terms.size()) - 1) {
    return InvalidArgument(chain.results.size(), " results for ", info.output_count(),
                           " outputs; the first is the last term");
  }
  for (int i = 0; i < info.input_count(); ++i) {
    if (!kernels::kChainInputTypes.Contains(info.input_type(i))) {
      return NotSupported("input type ", DataTypeName(info.input_type(i)));
    }
    if (IsTable(chain, i)) CUDAEP_RETURN_IF_ERROR(CheckTable(info, chain, i));
  }
  for (int i = 0; i < info.output_count(); ++i) {
    if (!kernels::kChainOutputTypes.Contains(info.output_type(i))) {
      return NotSupported("output type ", DataTypeName(info.output_type(i)));
    }
  }
  return Status::Ok();
}

// Whether all floats that come and go are rounded to 16 bits, and an error that is small beside that stays small.
bool MayBeFast(const OpInfo& info, const Chain& chain) {
  DataTypeSet types;
  for (int i = 0; i < info.input_count(); ++i) types = types | DataTypeSet(info.input_type(i));
  for (int i = 0; i < info.output_count(); ++i) types = types | DataTypeSet(info.output_type(i));
  if (types.Contains(DataType::kFloat)) return false;
  if ((types - kFloat16Types) == types) return false;
  return std::ranges::none_of(chain.terms, [](const ChainTerm& term) { return term.function->exact; });
}

class Elementwise final : public Operator {
 public:
  Elementwise(Chain chain, const kernels::ChainProgram& program, std::vector<DataType> inputs,
              std::vector<DataType> outputs)
      : chain_(std::move(chain)),
        program_(program),
        input_types_(std::move(inputs)),
        output_types_(std::move(outputs)) {
    for (int i = 0; i < chain_.inputs; ++i) is_table_.push_back(IsTable(chain_, i));
  }

  static Result<std::unique_ptr<Elementwise>> Create(const OpInfo& info) {
    CUDAEP_ASSIGN_OR_RETURN(Chain chain, ReadChain(info));
    CUDAEP_RETURN_IF_ERROR(CheckTensors(info, chain));
    CUDAEP_ASSIGN_OR_RETURN(const kernels::ChainProgram program, CompileChain(chain, MayBeFast(info, chain)));
    std::vector<DataType> inputs, outputs;
    for (int i = 0; i < info.input_count(); ++i) inputs.push_back(info.input_type(i));
    for (int i = 0; i < info.output_count(); ++i) outputs.push_back(info.output_type(i));
    return std::make_unique<Elementwise>(std::move(chain), program, std::move(inputs), std::move(outputs));
  }

  Status InferShapes(TensorViews inputs, std::vector<Shape>& outputs) const override {
    Shape whole;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (is_table_[i] && !SameDims(inputs[i].dims(), Shape{kernels::kChainTableSize})) {
        return InvalidArgument("table ", i, " has dimensions ", inputs[i].dims());
      }
      CUDAEP_ASSIGN_OR_RETURN(whole, BroadcastShapes(whole, DimsOf(inputs, i)));
    }
    CUDAEP_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, ShapesOfValues(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Shape& own = shapes[static_cast<size_t>(chain_.results[i])];
      if (!SameDims(own, whole)) return InvalidArgument("result ", i, " has dimensions ", own, ", the chain ", whole);
      outputs[i] = whole;
    }
    return Status::Ok();
  }

  Result<PlanPtr> MakePlan(const PlanContext& context) const override {
    auto plan = std::make_unique<ChainPlan>();
    std::array<Dims, kMaxChainInputs> dims;
    for (size_t i = 0; i < context.inputs.size(); ++i) dims[i] = DimsOf(context.inputs, i);
    CUDAEP_ASSIGN_OR_RETURN(plan->broadcast, kernels::MakeBroadcast<kMaxChainInputs>(context.outputs[0], dims));
    plan->shared_bytes = context.device.shared_bytes_per_block;
    return PlanPtr(std::move(plan));
  }

  Status Enqueue(const Plan& plan, const OpContext& context) const override {
    const auto& own = PlanAs<ChainPlan>(plan);
    kernels::ChainArgs args{.program = &program_,
                            .inputs = {},
                            .outputs = {},
                            .input_types = {},
                            .output_types = {},
                            .broadcast = &own.broadcast,
                            .shared_bytes = own.shared_bytes};
    for (size_t i = 0; i < input_types_.size(); ++i) {
      args.inputs[i] = context.input(static_cast<int>(i));
      args.input_types[i] = input_types_[i];
    }
    for (size_t i = 0; i < output_types_.size(); ++i) {
      args.outputs[i] = context.output(static_cast<int>(i));
      args.output_types[i] = output_types_[i];
    }
    return kernels::LaunchChain(args, context.stream());
  }

 private:
  // Of an element for a table.
  Dims DimsOf(TensorViews inputs, size_t input) const { return is_table_[input] ? Dims() : inputs[input].dims(); }

  // Of inputs and terms; numbers have no dimensions.
  Result<std::vector<Shape>> ShapesOfValues(TensorViews inputs) const {
    std::vector<Shape> shapes;
    shapes.reserve(inputs.size() + chain_.terms.size());
    for (size_t i = 0; i < inputs.size(); ++i) shapes.emplace_back(DimsOf(inputs, i));
    for (const ChainTerm& term : chain_.terms) {
      Shape shape;
      for (int i = 0; i < term.function->operands; ++i) {
        const int operand = term.operands[static_cast<size_t>(i)];
        if (operand == ChainTerm::kNumber) continue;
        CUDAEP_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, shapes[static_cast<size_t>(operand)]));
      }
      shapes.push_back(std::move(shape));
    }
    return shapes;
  }

  Chain chain_;
  kernels::ChainProgram program_;
  std::vector<DataType> input_types_, output_types_;
  std::vector<bool> is_table_;  // of inputs
};

KernelRow Row() {
  KernelRow row{.domain = kFusedDomain,
                .op = "Elementwise",
                .types = {{"T", kernels::kChainInputTypes}, {"T1", kernels::kChainOutputTypes}},
                .make = Make<Elementwise>};
  for (int i = 0; i < kMaxChainInputs; ++i) row.in_place.push_back({i, 0});
  return row;
}

const RegisterRows kRows({Row()});

}  // namespace
}  // namespace cudaep::ops
