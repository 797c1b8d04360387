// What the files of the block executor share of its fibers: where lanes of a warp meet, and the switch between stacks.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include "device/sim/block_executor.h"
#include "device/sim/sanitizers.h"

namespace cudaep::device::sim {

namespace context = boost::context::detail;

struct BlockExecutor::Warp {
  unsigned mask[32], ballot[32];
  Wait wait[32];
  uint8_t source[32];
  Slot value[32], result[32];
  WarpFunction compute[32];
  void* operand[32];
};

struct BlockExecutor::Switching {
  [[gnu::noinline]] static void To(Fiber* from, Fiber* to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->stack_bytes);
#endif
    TsanSwitch(to->tsan);
    Landed(context::jump_fcontext(to->context, from), from->fake_stack);
  }

  static void Landed(context::transfer_t transfer, [[maybe_unused]] void* fake_stack) {
    auto* previous = static_cast<Fiber*>(transfer.data);
    previous->context = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &previous->bottom, &previous->stack_bytes);
#endif
  }

  static void Entry(context::transfer_t transfer) {
    Unseen unseen;
    Landed(transfer, nullptr);
    BlockExecutor& block = Get();
    Fiber* self = block.entering_;
    for (;;) {
      block.self_ = self;
      block.launch_.signature->invoke(block.launch_.kernel, block.launch_.arguments, block);
      block.idle_.push_back(self);
      To(self, block.NextReady());
    }
  }
};

}  // namespace cudaep::device::sim
