// The distinct elements of a tensor, or its distinct slices along an axis.
//
// Three steps, between which the host reads back how many there are: LaunchGroup sorts and finds where each group of
// equal items begins; LaunchFirsts and the rest say where the items are. NaN equals NaN and comes last; zeros of both
// signs are equal.
#pragma once

#include "core/data_type.h"
#include "kernels/select/select.h"
#include "kernels/sort/sort_rows.h"

namespace cudaep::kernels {

inline constexpr DataTypeSet kUniqueTypes = kNumericTypes | DataTypeSet(DataType::kBool);

// Items are the slices [outer, one of items, inner] of x.
struct Unique {
  DataType type = DataType::kFloat;
  int64_t outer = 0, items = 0, inner = 0;

  RowSort sort() const {
    return {.rows = items, .row_words = outer * inner, .word_bytes = static_cast<int>(SizeOf(type))};
  }
  SelectPlan select() const { return PlanSelect(DataType::kBool, items); }
  size_t key_bytes() const { return static_cast<size_t>(outer * items * inner) * SizeOf(type); }
};

// Device memory that the steps share.
struct UniqueScratch {
  void* keys = nullptr;       // Unique::key_bytes()
  int64_t* order = nullptr;   // one for each item: its number by its place among all
  int64_t* heads = nullptr;   // one for each item: the places where groups begin, ascending
  int64_t* firsts = nullptr;  // one for each item: the number of the first item of each group, in the result's order
  uint8_t* flags = nullptr;   // one for each item
  int64_t* counts = nullptr;  // select().count_bytes(); counts[select().chunks] is the number of groups
};

Status LaunchGroup(const Unique& unique, const void* x, const UniqueScratch& scratch, device::Stream stream);

// Fills `firsts`: groups in the order of their values, or in that of their first items.
Status LaunchFirsts(const Unique& unique, int64_t groups, bool sorted, const UniqueScratch& scratch,
                    device::Stream stream);

// For each item the number of its group in the result, and for each group the number of its items; null where unwanted.
Status LaunchUniqueNumbers(const Unique& unique, int64_t groups, bool sorted, const UniqueScratch& scratch,
                           int64_t* inverse, int64_t* sizes, device::Stream stream);

}  // namespace cudaep::kernels
