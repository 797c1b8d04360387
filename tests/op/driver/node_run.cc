#include "node_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "device_traps.h"
#include "kernels/index_limit.h"
#include "memory/memory_registry.h"
#include "ops/planned_operator.h"

namespace cudaep::test {
namespace {

bool Holds(const std::vector<int>& list, size_t index) {
  return std::find(list.begin(), list.end(), static_cast<int>(index)) != list.end();
}

// NaN in floating point types, an unlikely number in others.
int PoisonByte(DataType type) { return (kIntTypes | DataTypeSet(DataType::kBool)).Contains(type) ? 0xA5 : 0xFF; }

// One tensor's memory, on the device or in host memory, `shift` bytes into an allocation that ends where it does.
struct Buffer {
  device::UniqueDeviceMemory device;
  std::unique_ptr<std::byte[]> host;
  size_t shift = 0;

  Status Allocate(bool on_host, size_t bytes, size_t shift_bytes = 0) {
    if (bytes == 0) return Status::Ok();  // stays null: what the host gives for empty tensors
    shift = shift_bytes;
    if (!on_host) return device::Malloc(device.Receive(), shift + bytes);
    host = std::make_unique<std::byte[]>(shift + bytes);
    return Status::Ok();
  }
  std::byte* pointer() const {
    std::byte* const start = device ? static_cast<std::byte*>(device.get()) : host.get();
    return start == nullptr ? nullptr : start + shift;
  }
};

class NodeRun : public ops::OutputSource {
 public:
  NodeRun(const Node& node, Sharing sharing, Mode mode, StreamContext& context)
      : node_(node),
        sharing_(sharing),
        mode_(mode),
        context_(context),
        row_(*ops::FindRow(node.domain(), node.op_type(), node.since_version())),
        input_buffers_(node.inputs.size()),
        output_buffers_(node.outputs.size()) {}

  bool shared() const { return shared_; }

  Status Create() {
    CUDAEP_RETURN_IF_ERROR(op_.Init(node_));
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const InputTensor& input = node_.inputs[i];
      CUDAEP_RETURN_IF_ERROR(
          input_buffers_[i].Allocate(row_.IsHostInput(static_cast<int>(i)), input.values.size(), Shift(input.type)));
      dims_.push_back(input.dims);
      views_.push_back(input.View(input_buffers_[i].pointer()));
      views_.back().dim = dims_.back().data();
    }
    return Status::Ok();
  }

  // Gives the operator its own form of each constant that it wants packed, in place of the constant.
  Status PackConstants() {
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      if (!node_.inputs[i].constant) continue;
      CUDAEP_ASSIGN_OR_RETURN(const size_t bytes, op_.op().PackedBytes(static_cast<int>(i), views_[i]));
      if (bytes == 0) continue;
      Buffer packed;
      CUDAEP_RETURN_IF_ERROR(packed.Allocate(false, bytes));
      CUDAEP_RETURN_IF_ERROR(Fill(input_buffers_[i], node_.inputs[i].values));
      CUDAEP_RETURN_IF_ERROR(op_.op().Pack(static_cast<int>(i), views_[i], packed.pointer(), context_));
      CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(context_.stream()));
      input_buffers_[i] = std::move(packed);
      views_[i].data = input_buffers_[i].pointer();
      views_[i].packed = true;
    }
    return Status::Ok();
  }

  // Makes the inputs what the test wants and the outputs poison.
  Status Load(Bytes InputTensor::*values) {
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const InputTensor& input = node_.inputs[i];
      // What the plan was made for stays as it is.
      const bool fixed = input.constant || row_.IsHostInput(static_cast<int>(i));
      const Bytes& bytes = fixed || (input.*values).size() != input.values.size() ? input.values : input.*values;
      if (!views_[i].packed) CUDAEP_RETURN_IF_ERROR(Fill(input_buffers_[i], bytes));
      dims_[i] = input.dims;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      void* const pointer = output_buffers_[i].pointer();  // null when an input's buffer was taken over
      if (pointer == nullptr) continue;
      const size_t bytes = OutputBytes(i);
      const int poison = PoisonByte(node_.outputs[i]);
      if (output_buffers_[i].host != nullptr) {
        if (!captured_) std::memset(pointer, poison, bytes);  // written when captured, not when replayed
      } else {
        CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(pointer, poison, bytes, context_.stream()));
      }
    }
    return Status::Ok();
  }

  Status Prepare() {
    PlanPin pin(context_.plan_pins());
    CUDAEP_ASSIGN_OR_RETURN(const ops::PlannedCall call, op_.PlanFor(pin, views_, context_));
    shapes_.assign(call.outputs.begin(), call.outputs.end());
    capturable_ = call.plan->capturable;
    outputs_.assign(node_.outputs.size(), nullptr);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!ops::IsKnown(shapes_[i]) && !row_.open_shapes) return Internal("the row lacks open_shapes");
      if (node_.outputs[i] == DataType::kUndefined || !ops::IsKnown(shapes_[i])) continue;
      if (TakesOver(i)) {
        outputs_[i] = input_buffers_[static_cast<size_t>(sharing_.input)].pointer();
        shared_ = true;
        continue;
      }
      CUDAEP_RETURN_IF_ERROR(
          output_buffers_[i].Allocate(Holds(row_.host_outputs, i), OutputBytes(i), Shift(node_.outputs[i])));
      outputs_[i] = output_buffers_[i].pointer();
    }
    return Status::Ok();
  }

  bool capturable() const { return capturable_; }

  // An output whose shape only the operator's work tells.
  Result<void*> Output(int index, Dims dims) override {
    const auto i = static_cast<size_t>(index);
    if (ops::IsKnown(inferred_[i])) return Internal("output ", index, " is asked for although its shape was known");
    shapes_[i] = Shape(dims);
    if (node_.outputs[i] == DataType::kUndefined) return nullptr;
    output_buffers_[i] = {};
    CUDAEP_RETURN_IF_ERROR(
        output_buffers_[i].Allocate(Holds(row_.host_outputs, i), OutputBytes(i), Shift(node_.outputs[i])));
    outputs_[i] = output_buffers_[i].pointer();
    if (outputs_[i] != nullptr && output_buffers_[i].host == nullptr) {
      CUDAEP_RETURN_IF_ERROR(
          device::MemsetAsync(outputs_[i], PoisonByte(node_.outputs[i]), OutputBytes(i), context_.stream()));
    }
    return outputs_[i];
  }

  Status Enqueue() {
    PlanPin pin(context_.plan_pins());
    CUDAEP_ASSIGN_OR_RETURN(const ops::PlannedCall call, op_.PlanFor(pin, views_, context_));
    inferred_.assign(call.outputs.begin(), call.outputs.end());
    const bool empty = std::all_of(inferred_.begin(), inferred_.end(),
                                   [](const Shape& s) { return s.elems() == 0 && ops::IsKnown(s); });
    if (mode_ == Mode::kShifted || !capturable_ || (empty && !inferred_.empty())) {
      CUDAEP_RETURN_IF_ERROR(op_.Enqueue(pin, call, views_, outputs_.data(), this, context_));
    } else {
      if (workspace_.pointer() == nullptr) {
        CUDAEP_RETURN_IF_ERROR(workspace_.Allocate(false, call.plan->workspace_bytes));
      }
      CUDAEP_RETURN_IF_ERROR(
          op_.op().Enqueue(*call.plan, {views_, outputs_.data(), workspace_.pointer(), context_, call.outputs, this}));
    }
    ScribbleHostInputs();
    return Status::Ok();
  }

  Status Capture() {
    const device::Stream stream = context_.stream();
    CUDAEP_RETURN_IF_ERROR(device::StreamBeginCapture(stream, device::CaptureMode::kThreadLocal));
    Status enqueued = Enqueue();
    Status ended = device::StreamEndCapture(stream, graph_.Receive());
    CUDAEP_RETURN_IF_ERROR(std::move(enqueued));
    CUDAEP_RETURN_IF_ERROR(std::move(ended).WithContext("end of capture"));
    captured_ = true;
    return device::GraphInstantiate(exec_.Receive(), graph_.get());
  }

  Status LaunchGraph() { return device::GraphLaunch(exec_.get(), context_.stream()); }

  Status Download(std::vector<std::vector<OutputTensor>>& launches) {
    std::vector<OutputTensor>& result = launches.emplace_back(outputs_.size());
    CUDAEP_RETURN_IF_ERROR(device::StreamSynchronize(context_.stream()));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (node_.outputs[i] == DataType::kUndefined) continue;
      result[i].shape = shapes_[i];
      result[i].values.resize(OutputBytes(i));
      if (result[i].values.empty()) continue;
      if (Holds(row_.host_outputs, i)) {
        std::memcpy(result[i].values.data(), outputs_[i], result[i].values.size());
      } else {
        CUDAEP_RETURN_IF_ERROR(
            device::MemcpyAsync(result[i].values.data(), outputs_[i], result[i].values.size(), context_.stream()));
      }
    }
    return device::StreamSynchronize(context_.stream());
  }

 private:
  size_t OutputBytes(size_t index) const {
    return ops::IsKnown(shapes_[index]) ? StorageBytes(node_.outputs[index], shapes_[index].elems()) : 0;
  }

  // The least that a host may align to: half a complex number, and a byte for elements that share one.
  size_t Shift(DataType type) const {
    if (mode_ != Mode::kShifted) return 0;
    const bool is_complex = type == DataType::kComplex64 || type == DataType::kComplex128;
    return is_complex ? SizeOf(type) / 2 : std::max<size_t>(SizeOf(type), 1);
  }

  // The host's own rule for reuse: equal dimensions and equal size of elements.
  bool TakesOver(size_t output) const {
    if (sharing_.output != static_cast<int>(output) || sharing_.input >= node_.input_count()) return false;
    const InputTensor& input = node_.inputs[static_cast<size_t>(sharing_.input)];
    const bool alias = std::any_of(row_.aliases.begin(), row_.aliases.end(), [&](const ops::BufferPair& pair) {
      return pair.input == sharing_.input && pair.output == sharing_.output;
    });
    return input.type != DataType::kUndefined && SizeOf(input.type) == SizeOf(node_.outputs[output]) &&
           (alias || SameDims(input.dims, shapes_[output])) && input.values.size() == OutputBytes(output);
  }

  Status Fill(const Buffer& buffer, const Bytes& bytes) {
    if (bytes.empty()) return Status::Ok();
    if (buffer.host == nullptr) {
      return device::MemcpyAsync(buffer.pointer(), bytes.data(), bytes.size(), context_.stream());
    }
    std::memcpy(buffer.pointer(), bytes.data(), bytes.size());
    return Status::Ok();
  }

  void ScribbleHostInputs() {
    for (size_t i = 0; i < input_buffers_.size(); ++i) {
      const size_t bytes = node_.inputs[i].values.size();
      if (input_buffers_[i].host != nullptr) std::memset(input_buffers_[i].pointer(), 0xA5, bytes);
      std::fill(dims_[i].begin(), dims_[i].end(), int64_t{-0x5A5A});
    }
  }

  const Node& node_;
  const Sharing sharing_;
  const Mode mode_;
  StreamContext& context_;
  const ops::KernelRow& row_;
  ops::PlannedOperator op_;
  std::vector<Buffer> input_buffers_, output_buffers_;
  Buffer workspace_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<ops::TensorView> views_;
  std::vector<Shape> shapes_;
  std::vector<void*> outputs_;
  device::UniqueGraph graph_;
  device::UniqueGraphExec exec_;
  std::vector<Shape> inferred_;  // of the last call, with dimensions that were open
  bool captured_ = false;
  bool shared_ = false;
  bool capturable_ = true;
};

Status RunDirect(NodeRun& run, RunResult& result) {
  CUDAEP_RETURN_IF_ERROR(run.Load(&InputTensor::values));
  CUDAEP_RETURN_IF_ERROR(run.Prepare());
  CUDAEP_RETURN_IF_ERROR(run.Load(&InputTensor::values));
  CUDAEP_RETURN_IF_ERROR(run.Enqueue());
  return run.Download(result.launches);
}

// Work that cannot be captured is refused while its stream is, and runs twice more without.
Status RunRefusingCapture(NodeRun& run, RunResult& result) {
  CUDAEP_RETURN_IF_ERROR(run.Load(&InputTensor::values));
  const Status refused = run.Capture();
  if (refused.code() != StatusCode::kFailedPrecondition) {
    return Internal("a plan that is not capturable was captured: ", refused.ToString());
  }
  for (Bytes InputTensor::*values : {&InputTensor::values, &InputTensor::replay_values}) {
    CUDAEP_RETURN_IF_ERROR(run.Load(values));
    CUDAEP_RETURN_IF_ERROR(run.Enqueue());
    CUDAEP_RETURN_IF_ERROR(run.Download(result.launches));
  }
  return Status::Ok();
}

Status RunCaptured(NodeRun& run, RunResult& result) {
  CUDAEP_RETURN_IF_ERROR(run.PackConstants());
  CUDAEP_RETURN_IF_ERROR(RunDirect(run, result));
  if (!run.capturable()) return RunRefusingCapture(run, result);
  CUDAEP_RETURN_IF_ERROR(run.Load(&InputTensor::values));
  CUDAEP_RETURN_IF_ERROR(run.Capture());
  for (Bytes InputTensor::*values : {&InputTensor::values, &InputTensor::replay_values}) {
    CUDAEP_RETURN_IF_ERROR(run.Load(values));
    CUDAEP_RETURN_IF_ERROR(run.LaunchGraph());
    CUDAEP_RETURN_IF_ERROR(run.Download(result.launches));
  }
  return Status::Ok();
}

Status CreateOnly(const Node& node, RunResult& result) {
  const ops::KernelRow& row = *ops::FindRow(node.domain(), node.op_type(), node.since_version());
  CUDAEP_ASSIGN_OR_RETURN(const ops::OperatorPtr op, ops::MakeOperator(node, row));
  std::vector<ops::TensorView> views;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    views.push_back(node.inputs[i].View(row.IsHostInput(static_cast<int>(i)) ? node.inputs[i].values.data() : nullptr));
  }
  std::vector<Shape> shapes(node.outputs.size());
  CUDAEP_RETURN_IF_ERROR(op->InferShapes(views, shapes));
  for (Shape& shape : shapes) {
    result.launches.resize(1);
    result.launches[0].push_back({.shape = std::move(shape), .values = {}});
  }
  return Status::Ok();
}

Status RunIn(const Node& node, Mode mode, Sharing sharing, RunResult& result) {
  if (ops::FindRow(node.domain(), node.op_type(), node.since_version()) == nullptr) {
    return ops::MissingRow(node);
  }
  if (mode == Mode::kCreate) return CreateOnly(node, result);
  CUDAEP_RETURN_IF_ERROR(device::SetDevice(0));
  device::UniqueStream stream;
  CUDAEP_RETURN_IF_ERROR(device::StreamCreate(stream.Receive()));
  // Memory may be another case's too, while a library plan is compiled for that.
  struct End {
    device::Stream stream;
    ~End() { memory::StreamEnded(0, stream); }
  } const end{stream.get()};
  StreamContext context(0, stream.get());
  NodeRun run(node, sharing, mode, context);
  CUDAEP_RETURN_IF_ERROR(run.Create());
  Status status;
  {
    const OnlyStream trap(stream.get());
    status = mode == Mode::kGraph ? RunCaptured(run, result) : RunDirect(run, result);
  }
  result.shared = run.shared();
  // Nothing may be pending when the buffers go; an error here is one the operator left behind.
  Status idle = device::StreamSynchronize(stream.get());
  return status.ok() ? idle : status;
}

}  // namespace

RunResult Run(const Node& node, Mode mode, Sharing sharing) {
  RunResult result;
  const int64_t usual_limit = std::exchange(kernels::index_limit, mode == Mode::kSliced ? 64 : kernels::index_limit);
  result.status = RunIn(node, mode, sharing, result);
  kernels::index_limit = usual_limit;
  const StatusCode code = result.status.code();
  if (code == StatusCode::kDeviceError || code == StatusCode::kDeviceLost) RecoverDevice();
  return result;
}

}  // namespace cudaep::test
