// lib/checkpoint/boxes.h -- arithmetic on boxes of a logical tensor: volume, intersection, exact cover, strided copy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor/catalog.h"

namespace trainctl {

Box whole(const Shape& shape);

// Product of the extents; empty when it passes 2^63 - 1 or an extent is negative (hostile input).
std::optional<int64_t> checked_volume(const Shape& extent);

// The common box, empty when there is none (or it has no element).
std::optional<Box> intersect(const Box& a, const Box& b);

// "" when `boxes` lie inside `shape`, are pairwise disjoint and hold every element; else what is wrong with which box.
std::string cover_fault(const Shape& shape, const std::vector<Box>& boxes);

// The contiguous pieces of `common`, in row-major order, where both boxes are stored contiguously (row-major over their
// own extent). `common` lies inside both and has elements. Source and target offsets both grow with the index.
class RunWalk {
 public:
  struct Run {
    int64_t source, target;  // first element, in either box
  };
  RunWalk(const Box& common, const Box& source, const Box& target);
  int64_t count() const { return count_; }
  int64_t length() const { return length_; }  // elements of every run
  Run run(int64_t index) const;
  int64_t first_beyond(int64_t source) const;  // index of the first run that ends after this source element

 private:
  int outer_ = 0;  // dimensions that runs step over
  int64_t count_ = 1, length_ = 1, source_ = 0, target_ = 0;
  Shape extent_, source_strides_, target_strides_;
};

// Calls run(source_element, target_element, count) for every contiguous piece of `common`; none when it is empty.
void for_each_run(const Box& common, const Box& source, const Box& target,
                  const std::function<void(int64_t, int64_t, int64_t)>& run);

}  // namespace trainctl
