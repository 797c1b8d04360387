#include "core/strings.h"

#include <cstdio>

namespace cudaep {

void TextPiece::AppendTo(std::string& out) const {
  char text[40];
  switch (kind_) {
    case Kind::kText:
      out.append(text_, size_);
      return;
    case Kind::kCharacter:
      out.push_back(character_);
      return;
    case Kind::kSigned:
      out.append(std::to_string(signed_));
      return;
    case Kind::kUnsigned:
      out.append(std::to_string(unsigned_));
      return;
    case Kind::kReal:
      std::snprintf(text, sizeof(text), "%.9g", real_);
      out.append(text);
      return;
    case Kind::kPointer:
      std::snprintf(text, sizeof(text), "%p", pointer_);
      out.append(text);
      return;
    case Kind::kDims:
      out.push_back('[');
      for (size_t i = 0; i < size_; ++i) {
        if (i != 0) out.push_back(',');
        out.append(std::to_string(dims_[i]));
      }
      out.push_back(']');
      return;
  }
}

std::string Concatenate(std::initializer_list<TextPiece> pieces) {
  std::string out;
  for (const TextPiece& piece : pieces) piece.AppendTo(out);
  return out;
}

}  // namespace cudaep
