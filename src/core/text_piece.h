// One argument of a message, as it will print: text, a number, a pointer, dimensions.
//
// It refers to what it was made of and lives no longer than the call it is an argument of. Kernel files include this by
// way of Status, so it brings no more of the standard library than it must.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>  // names std::string in every implementation there is
#include <span>
#include <string_view>

namespace cudaep {

class TextPiece {
 public:
  explicit TextPiece(std::string_view text) : kind_(Kind::kText), size_(text.size()), text_(text.data()) {}
  explicit TextPiece(const char* text) : TextPiece(std::string_view(text != nullptr ? text : "(null)")) {}
  explicit TextPiece(bool value) : TextPiece(std::string_view(value ? "true" : "false")) {}
  explicit TextPiece(char value) : kind_(Kind::kCharacter), character_(value) {}
  template <std::signed_integral T>
  explicit TextPiece(T value) : kind_(Kind::kSigned), signed_(value) {}
  template <std::unsigned_integral T>
  explicit TextPiece(T value) : kind_(Kind::kUnsigned), unsigned_(value) {}
  template <std::floating_point T>
  explicit TextPiece(T value) : kind_(Kind::kReal), real_(static_cast<double>(value)) {}
  // 0x-prefixed hexadecimal.
  explicit TextPiece(const void* pointer) : kind_(Kind::kPointer), pointer_(pointer) {}
  // [2,3,4]
  explicit TextPiece(std::span<const int64_t> dims) : kind_(Kind::kDims), size_(dims.size()), dims_(dims.data()) {}

  void AppendTo(std::string& out) const;

 private:
  enum class Kind : uint8_t { kText, kCharacter, kSigned, kUnsigned, kReal, kPointer, kDims };
  Kind kind_;
  size_t size_ = 0;  // of text and dimensions
  union {
    const char* text_;
    char character_;
    int64_t signed_;
    uint64_t unsigned_;
    double real_;
    const void* pointer_;
    const int64_t* dims_;
  };
};

}  // namespace cudaep
