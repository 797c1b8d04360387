#include "runtime/workspace.h"

#include <utility>

#include "core/checked_math.h"
#include "runtime/workspace_size.h"

namespace cudaep {

Workspace::Workspace(std::shared_ptr<memory::DeviceMemory> memory, device::Stream stream)
    : memory_(std::move(memory)), stream_(stream) {
  memory_->AddKept(this);
}

Workspace::Block::~Block() {
  if (graphs != nullptr) graphs->Move(memory::BudgetKind::kGraphs, memory::BudgetKind::kWorkspace, bytes);
  allocator->Free(data);
}

Workspace::~Workspace() { memory_->RemoveKept(this); }

size_t Workspace::PlanLimit() const {
  const size_t available = memory_->budget().available_bytes();
  const size_t share = available == SIZE_MAX ? SIZE_MAX : available / 4;
  return std::max(bytes_.load(), std::min(share, ceiling_));
}

// An answer that fails counts as no: plain work then says what is wrong.
bool Workspace::IsPlainNow() const {
  device::CaptureState capture = device::CaptureState::kNone;
  return !is_graphs_ && device::StreamCaptureState(stream_, &capture).ok() && capture == device::CaptureState::kNone;
}

Result<void*> Workspace::ReserveSlow(size_t bytes) {
  const Use use(*this, bytes);
  device::CaptureState capture = device::CaptureState::kNone;
  CUDAEP_RETURN_IF_ERROR(device::StreamCaptureState(stream_, &capture));
  if (bytes > bytes_) {
    if (capture != device::CaptureState::kNone) {
      return FailedPrecondition("workspace must grow to ", bytes,
                                " bytes while its stream is captured; run the same shapes once before capturing");
    }
    CUDAEP_RETURN_IF_ERROR(Grow(bytes));
  }
  is_reserved_ = true;
  // The caller's graph knows the address from now on, and nobody says when it ends.
  const bool is_new = capture != device::CaptureState::kNone && (captured_.empty() || captured_.back() != block_);
  if (is_new) captured_.push_back(block_);
  return block_->data;
}

Status Workspace::Grow(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return OutOfMemory("a workspace of ", bytes, " bytes is impossible");
  const auto allocator = memory_->workspaces();
  size_t size = WorkspaceBlockBytes(bytes, bytes_, memory_->budget().limit_bytes() != 0);
  Result<void*> data = allocator->AllocateOnStream(size, stream_);
  if (data.status().code() == StatusCode::kOutOfMemory) {
    size = AlignUp(bytes, memory::kAlignmentBytes);
    data = allocator->AllocateOnStream(size, stream_);
  }
  if (data.status().code() == StatusCode::kOutOfMemory && GiveUpUnused()) {
    data = allocator->AllocateOnStream(size, stream_);
  }
  if (!data.ok()) return std::move(data).status().WithContext("workspace");
  if (block_ != nullptr) outgrown_.push_back(std::move(block_));
  memory::Budget* const graphs = is_graphs_ ? &memory_->budget() : nullptr;
  if (graphs != nullptr) graphs->Move(memory::BudgetKind::kWorkspace, memory::BudgetKind::kGraphs, size);
  block_ = std::shared_ptr<Block>(new Block{allocator, data.value(), graphs, size});
  bytes_ = size;
  return Status::Ok();
}

// Whether anything was given back of what the operator that is just being queued does not use.
bool Workspace::GiveUpUnused() {
  const auto end = outgrown_.begin() + static_cast<std::ptrdiff_t>(outgrown_before_);
  bool any = end != outgrown_.begin();
  outgrown_.erase(outgrown_.begin(), end);
  outgrown_before_ = 0;
  if (!is_reserved_ && block_ != nullptr && block_.use_count() == 1) {
    block_ = nullptr;
    bytes_ = 0;
    any = true;
  }
  return any;
}

void Workspace::DropOutgrown() {
  std::vector<std::shared_ptr<Block>> outgrown;
  const Use use(*this, 1);
  outgrown.swap(outgrown_);
}

// What others hold is theirs to keep, and stays in use here.
void Workspace::PopIdle(std::vector<std::shared_ptr<void>>* idle) {
  if (is_graphs_ || !TryLock()) return;  // an operator is just being queued
  for (std::shared_ptr<Block>& block : outgrown_) idle->push_back(std::move(block));
  outgrown_.clear();
  if (block_ != nullptr && block_.use_count() == 1) {
    idle->push_back(std::move(block_));
    bytes_ = 0;
  }
  Unlock();
}

}  // namespace cudaep
