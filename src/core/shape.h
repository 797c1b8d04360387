// Tensor shapes: an owned list of dimensions that is inline up to eight of them.
//
// Rank 0 is a scalar (one element); a dimension of 0 makes an empty tensor. Dimensions here are never negative:
// symbolic ones do not exist once a node runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "core/dims.h"
#include "core/status.h"

namespace cudaep {

class Shape {
 public:
  static constexpr int kInlineRank = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { Assign(Dims(dims.begin(), dims.size())); }
  explicit Shape(Dims dims) { Assign(dims); }
  // `rank` dimensions, all set to `value`.
  Shape(int rank, int64_t value) {
    Resize(rank);
    std::fill_n(data(), rank, value);
  }
  Shape(const Shape& other) { Assign(other); }
  Shape(Shape&& other) noexcept
      : rank_(std::exchange(other.rank_, 0)), inline_(other.inline_), heap_(std::move(other.heap_)) {}
  Shape& operator=(const Shape& other) {
    if (this != &other) Assign(other);
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    rank_ = std::exchange(other.rank_, 0);
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    return *this;
  }

  int rank() const { return rank_; }
  int64_t* data() { return rank_ <= kInlineRank ? inline_.data() : heap_.get(); }
  const int64_t* data() const { return rank_ <= kInlineRank ? inline_.data() : heap_.get(); }
  int64_t& operator[](int axis) { return data()[axis]; }
  int64_t operator[](int axis) const { return data()[axis]; }
  operator Dims() const { return Dims(data(), static_cast<size_t>(rank_)); }  // NOLINT(google-explicit-constructor)
  Dims dims() const { return *this; }

  int64_t elems() const { return ElementCount(*this); }

  // Changes the rank; the values of all dimensions are unspecified afterwards.
  void Resize(int rank) {
    if (rank > kInlineRank) heap_ = std::make_unique<int64_t[]>(static_cast<size_t>(rank));
    rank_ = rank;
  }
  void Assign(Dims dims) {
    Resize(static_cast<int>(dims.size()));
    std::copy(dims.begin(), dims.end(), data());
  }
  void Append(int64_t dim) {
    Shape wider;
    wider.Resize(rank_ + 1);
    std::copy_n(data(), rank_, wider.data());
    wider[rank_] = dim;
    *this = std::move(wider);
  }

  friend bool operator==(const Shape& a, const Shape& b) { return SameDims(a, b); }

 private:
  int rank_ = 0;
  std::array<int64_t, kInlineRank> inline_{};
  std::unique_ptr<int64_t[]> heap_;
};

// Strides of a contiguous tensor, in elements, outermost first.
Shape ContiguousStrides(Dims dims);

// Turns an axis in [-rank, rank) into [0, rank); anything else is an error that names `what` and the range.
Result<int> NormalizeAxis(int64_t axis, int rank, std::string_view what = "axis");

// Multidirectional (numpy) broadcast of two shapes; an error names both shapes when they do not fit.
Result<Shape> BroadcastShapes(Dims a, Dims b);

}  // namespace cudaep
