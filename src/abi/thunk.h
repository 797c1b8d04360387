// One template between the host's C callbacks and member functions.
//
//   ep.GetCapability = Thunk<&Ep::OnGetCapability>();
//
// The slot's own type decides the C signature. A member may return Status where the slot returns OrtStatus*. No
// exception leaves a thunk: running out of host memory becomes a status, or a null result where a slot has none.
#pragma once

#include <new>
#include <type_traits>

#include "abi/host.h"

namespace cudaep::abi {

template <auto kMethod>
class Thunk {
  template <class>
  struct ClassOfMember;
  template <class C, class R, class... A>
  struct ClassOfMember<R (C::*)(A...)> {
    using Type = C;
  };
  template <class C, class R, class... A>
  struct ClassOfMember<R (C::*)(A...) const> {
    using Type = C;
  };
  using Object = typename ClassOfMember<decltype(kMethod)>::Type;

  template <class R, class Base, class... A>
  static R Call(Base* self, A... args) noexcept {
    auto* object = static_cast<Object*>(const_cast<std::remove_const_t<Base>*>(self));
    if constexpr (std::is_same_v<R, OrtStatus*>) {
      try {
        return ToOrt((object->*kMethod)(args...));
      } catch (...) {
        return StatusOfException();
      }
    } else {
      try {
        return (object->*kMethod)(args...);
      } catch (...) {
        return R();
      }
    }
  }

 public:
  // Most slots are declared noexcept, those of OrtAllocator are not.
  template <class R, class Base, class... A>
  using Slot = R(ORT_API_CALL*)(Base*, A...) noexcept;
  template <class R, class Base, class... A>
  using PlainSlot = R(ORT_API_CALL*)(Base*, A...);

  template <class R, class Base, class... A>
  operator Slot<R, Base, A...>() const {  // NOLINT(google-explicit-constructor)
    return &Call<R, Base, A...>;
  }
  template <class R, class Base, class... A>
  operator PlainSlot<R, Base, A...>() const {  // NOLINT(google-explicit-constructor)
    return &Call<R, Base, A...>;
  }
};

}  // namespace cudaep::abi
