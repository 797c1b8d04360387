// What messages are made of, as it prints.
#include "core/strings.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "core/shape.h"

namespace cudaep {
namespace {

TEST(StrCat, TextAndCharacters) {
  const char* const none = nullptr;
  char buffer[] = "buffer";
  EXPECT_EQ(StrCat("literal ", std::string("string "), std::string_view("view "), static_cast<char*>(buffer), '!'),
            "literal string view buffer!");
  EXPECT_EQ(StrCat(none, ""), "(null)");
  EXPECT_EQ(StrCat(), "");
}

TEST(StrCat, Numbers) {
  EXPECT_EQ(StrCat(true, false), "truefalse");
  EXPECT_EQ(StrCat(int8_t{-7}, ' ', uint8_t{200}), "-7 200");
  EXPECT_EQ(StrCat(std::numeric_limits<int64_t>::min(), ' ', std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(StrCat(0.1f, ' ', 1e300, ' ', -0.0), "0.100000001 1e+300 -0");
}

TEST(StrCat, Pointers) {
  int* const pointer = reinterpret_cast<int*>(0x10);
  EXPECT_EQ(StrCat(pointer), "0x10");
}

TEST(StrCat, Dimensions) { EXPECT_EQ(StrCat(Shape{2, 3}, std::vector<int64_t>{4}, Dims()), "[2,3][4][]"); }

}  // namespace
}  // namespace cudaep
