// lib/checkpoint/boxes.cpp -- boxes: volume, intersection, exact cover, runs of a strided copy.
#include "checkpoint/boxes.h"

#include <algorithm>

namespace trainctl {

Box whole(const Shape& shape) {
  Box box{shape, shape};
  for (int d = 0; d < shape.rank(); ++d) box.offset[d] = 0;
  return box;
}

std::optional<int64_t> checked_volume(const Shape& extent) {
  int64_t volume = 1;
  bool empty = false, overflow = false;
  for (int d = 0; d < extent.rank(); ++d) {
    if (extent[d] < 0) return std::nullopt;
    empty = empty || extent[d] == 0;
    if (!empty) overflow = overflow || __builtin_mul_overflow(volume, extent[d], &volume);
  }
  if (empty) return 0;
  if (overflow) return std::nullopt;
  return volume;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box common = a;
  for (int d = 0; d < a.offset.rank(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end) return std::nullopt;
    common.offset[d] = begin;
    common.extent[d] = end - begin;
  }
  return common;
}

namespace {

// That with the most different offsets; -1: there is none.
int most_cut_dimension(const Shape& shape, const std::vector<const Box*>& boxes) {
  int best = shape.rank() - 1;
  int64_t most = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    std::vector<int64_t> offsets;
    for (const Box* box : boxes) offsets.push_back(box->offset[d]);
    std::sort(offsets.begin(), offsets.end());
    const int64_t different = std::unique(offsets.begin(), offsets.end()) - offsets.begin();
    if (different > most) {
      most = different;
      best = d;
    }
  }
  return best;
}

}  // namespace

std::string cover_fault(const Shape& shape, const std::vector<Box>& boxes) {
  const std::optional<int64_t> total = checked_volume(shape);
  if (!total) return fmt::format("the shape {} has too many elements", to_string(shape));
  int64_t held = 0;
  for (const Box& box : boxes) {
    if (box.offset.rank() != shape.rank() || box.extent.rank() != shape.rank())
      return fmt::format("a box at {} of extent {} does not have the dimensions of the shape {}", to_string(box.offset),
                         to_string(box.extent), to_string(shape));
    for (int d = 0; d < shape.rank(); ++d)  // written so that nothing can overflow
      if (box.offset[d] < 0 || box.extent[d] < 0 || box.offset[d] > shape[d] ||
          box.extent[d] > shape[d] - box.offset[d])
        return fmt::format("the box at {} of extent {} leaves the shape {}", to_string(box.offset),
                           to_string(box.extent), to_string(shape));
    const int64_t volume = *checked_volume(box.extent);  // <= total: the box is inside
    if (volume > *total - held)
      return fmt::format("boxes overlap: they hold more than the {} elements of {}", *total, to_string(shape));
    held += volume;
  }
  // Sorted by offset in one dimension, a box can only meet those that begin before it ends; there are fewest of them
  // in the dimension that is cut most.
  std::vector<const Box*> sorted;
  for (const Box& box : boxes)
    if (*checked_volume(box.extent) > 0) sorted.push_back(&box);
  const int cut = most_cut_dimension(shape, sorted);
  const auto first = [cut](const Box& b) { return cut < 0 ? 0 : b.offset[cut]; };
  std::sort(sorted.begin(), sorted.end(), [&](const Box* a, const Box* b) { return first(*a) < first(*b); });
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t j = i + 1; j < sorted.size(); ++j) {
      const Box &a = *sorted[i], &b = *sorted[j];
      if (cut >= 0 && b.offset[cut] >= a.offset[cut] + a.extent[cut]) break;
      if (const std::optional<Box> common = intersect(a, b))
        return fmt::format("boxes overlap at {}", to_string(common->offset));
    }
  if (held != *total) return fmt::format("boxes hold {} of {} elements of {}", held, *total, to_string(shape));
  return "";
}

RunWalk::RunWalk(const Box& common, const Box& source, const Box& target)
    : extent_(common.extent),
      source_strides_(contiguous_strides(source.extent)),
      target_strides_(contiguous_strides(target.extent)) {
  const int rank = common.extent.rank();
  for (int d = 0; d < rank; ++d) {
    source_ += (common.offset[d] - source.offset[d]) * source_strides_[d];
    target_ += (common.offset[d] - target.offset[d]) * target_strides_[d];
  }
  if (rank == 0) return;
  // Trailing dimensions that all three span whole merge into one run.
  outer_ = rank - 1;
  length_ = common.extent[outer_];
  while (outer_ > 0 && common.extent[outer_] == source.extent[outer_] && common.extent[outer_] == target.extent[outer_])
    length_ *= common.extent[--outer_];
  for (int d = 0; d < outer_; ++d) count_ *= common.extent[d];
}

RunWalk::Run RunWalk::run(int64_t index) const {
  Run r{source_, target_};
  for (int d = outer_ - 1; d >= 0; --d) {
    const int64_t i = d == 0 ? index : index % extent_[d];
    if (d > 0) index /= extent_[d];
    r.source += i * source_strides_[d];
    r.target += i * target_strides_[d];
  }
  return r;
}

int64_t RunWalk::first_beyond(int64_t source) const {
  int64_t low = 0, high = count_;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (run(middle).source + length_ > source)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void for_each_run(const Box& common, const Box& source, const Box& target,
                  const std::function<void(int64_t, int64_t, int64_t)>& run) {
  if (common.extent.numel() == 0) return;
  const RunWalk walk(common, source, target);
  for (int64_t i = 0; i < walk.count(); ++i) {
    const RunWalk::Run r = walk.run(i);
    run(r.source, r.target, walk.length());
  }
}

}  // namespace trainctl
