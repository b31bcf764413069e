// lib/tensor/shape.h -- up to four dimensions, by value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace trainctl {

inline constexpr int kMaxDims = 4;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    ensure(dims.size() <= kMaxDims, "a shape has more than four dimensions");
    for (const int64_t d : dims) dims_[static_cast<size_t>(rank_++)] = d;
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  Shape with(int dim, int64_t size) const {
    Shape s = *this;
    s[dim] = size;
    return s;
  }
  void push_back(int64_t d) {
    ensure(rank_ < kMaxDims, "a shape has more than four dimensions");
    dims_[static_cast<size_t>(rank_++)] = d;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

}  // namespace trainctl
