#include "device/sim/block_table.h"

#include <iterator>

#include "core/strings.h"

namespace cudaep::device::sim {
namespace {

constexpr size_t kMaxEnded = 1024;

}  // namespace

std::string Block::Describe() const {
  std::string text = StrCat("block ", serial, " (", end - begin, " bytes at ", reinterpret_cast<void*>(begin),
                            ", made by call ", born);
  if (died != 0) text += StrCat(", ended by call ", died);
  return text + ")";
}

const Block& BlockTable::Declare(Block block) {
  block.serial = ++serial_;
  if (const Block* outer = Find(block.begin);
      outer != nullptr && block.end <= outer->end && outer->end != block.begin) {
    block.outer = outer->begin;
    block.depth = outer->depth + 1;
  }
  return live_.insert_or_assign({block.begin, block.depth}, block).first->second;
}

const Block* BlockTable::End(uintptr_t begin, uint64_t call) {
  auto found = live_.upper_bound({begin, ~0u});
  if (found == live_.begin() || (--found)->second.begin != begin) return nullptr;
  if (ended_.size() == kMaxEnded) ended_.pop_front();
  ended_.push_back(found->second);
  ended_.back().died = call;
  live_.erase(found);
  return &ended_.back();
}

void BlockTable::MarkCaptured(uintptr_t address) {
  const Block* innermost = Find(address);
  if (innermost == nullptr) return;
  auto block = live_.find({innermost->begin, innermost->depth});
  while (block != live_.end()) {
    block->second.captured = true;
    if (block->second.depth == 0) return;
    block = live_.find({block->second.outer, block->second.depth - 1});
  }
}

const Block* BlockTable::Find(uintptr_t address) const {
  auto next = live_.upper_bound({address, ~0u});
  const Block* ends_there = nullptr;
  while (next != live_.begin()) {
    const Block& block = std::prev(next)->second;
    if (address < block.end) return &block;
    if (address == block.end && ends_there == nullptr) ends_there = &block;
    if (block.depth == 0) break;
    next = std::next(live_.find({block.outer, block.depth - 1}));
  }
  return ends_there;
}

const Block& BlockTable::OutermostOf(const Block& block) const {
  const Block* outermost = &block;
  while (outermost->depth != 0) outermost = &live_.find({outermost->outer, outermost->depth - 1})->second;
  return *outermost;
}

const Block* BlockTable::FindEnded(uintptr_t address) const {
  for (auto block = ended_.rbegin(); block != ended_.rend(); ++block) {
    if (address >= block->begin && address < block->end) return &*block;
  }
  return nullptr;
}

void BlockTable::Forget(uintptr_t begin, uintptr_t end) {
  live_.erase(live_.lower_bound({begin, 0}), live_.lower_bound({end, 0}));
}

void BlockTable::Clear() {
  live_.clear();
  ended_.clear();
  queued_.clear();
}

}  // namespace cudaep::device::sim
