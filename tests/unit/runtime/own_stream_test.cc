// A stream that lives for one piece of work leaves nothing behind that asks for it.
#include "runtime/own_stream.h"

#include <gtest/gtest.h>

#include <new>

#include "../device/device_fixture.h"

namespace cudaep {
namespace {

constexpr size_t kBytes = size_t{5} << 20;

class OwnStreamTest : public device::testing::DeviceTest {
 protected:
  // Memory that another stream gets at once where the first one's end was told: no wait, nothing from the driver.
  static void ExpectFree(StreamContext& other, void* pointer) {
    memory::Allocator& tensors = *other.memory()->tensors();
    const memory::AllocatorStats before = tensors.Stats();
    const Result<void*> again = tensors.AllocateOnStream(kBytes, other.stream());
    ASSERT_OK(again.status());
    EXPECT_EQ(again.value(), pointer);
    EXPECT_EQ(tensors.Stats().stream_waits, before.stream_waits);
    EXPECT_EQ(tensors.Stats().driver_allocations, before.driver_allocations);
    tensors.Free(again.value());
    EXPECT_OK(other.memory()->Shrink());  // asks all streams that are known
    EXPECT_OK(device::StreamSynchronize(other.stream()));
  }
};

TEST_F(OwnStreamTest, ItsEndIsTold) {
  StreamContext other(0, stream());
  for (const bool fails : {false, true}) {
    void* pointer = nullptr;
    const Status status = OnOwnStream(other.memory(), [&](StreamContext& context) -> Status {
      const auto tensors = context.memory()->tensors();
      CUDAEP_ASSIGN_OR_RETURN(pointer, tensors->AllocateOnStream(kBytes, context.stream()));
      CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(pointer, 1, kBytes, context.stream()));
      tensors->Free(pointer);
      return fails ? NotSupported("no such weight") : Status::Ok();
    });
    EXPECT_EQ(status.code(), fails ? StatusCode::kNotSupported : StatusCode::kOk);
    ExpectFree(other, pointer);
  }
  other.memory()->ReleaseStream(stream());
}

// As the lack of host memory is.
TEST_F(OwnStreamTest, ItsEndIsToldWhenTheWorkThrows) {
  StreamContext other(0, stream());
  void* pointer = nullptr;
  EXPECT_THROW(OnOwnStream(other.memory(),
                           [&](StreamContext& context) -> Status {
                             const auto tensors = context.memory()->tensors();
                             CUDAEP_ASSIGN_OR_RETURN(pointer, tensors->AllocateOnStream(kBytes, context.stream()));
                             CUDAEP_RETURN_IF_ERROR(device::MemsetAsync(pointer, 1, kBytes, context.stream()));
                             tensors->Free(pointer);
                             throw std::bad_alloc();
                           })
                   .IgnoreError(),
               std::bad_alloc);
  ExpectFree(other, pointer);
  other.memory()->ReleaseStream(stream());
}

}  // namespace
}  // namespace cudaep
