// Text assembly for messages: concatenation of strings and numbers without streams or locales.
//
// Used on error and log paths only; nothing here is called while a node runs without failing.
#pragma once

#include <initializer_list>
#include <string>

#include "core/text_piece.h"

namespace cudaep {

// What StrCat is made of.
std::string Concatenate(std::initializer_list<TextPiece> pieces);

// Concatenates its arguments: text, numbers, pointers and spans of dimensions.
template <class... Args>
std::string StrCat(const Args&... args) {
  return Concatenate({TextPiece(args)...});
}

}  // namespace cudaep
