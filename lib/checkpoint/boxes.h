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

// Calls run(source_element, target_element, count) for every contiguous piece of `common`, in row-major order, where
// both boxes are stored contiguously (row-major over their own extent). `common` lies inside both.
void for_each_run(const Box& common, const Box& source, const Box& target,
                  const std::function<void(int64_t, int64_t, int64_t)>& run);

}  // namespace trainctl
