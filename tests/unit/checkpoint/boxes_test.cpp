// tests/unit/checkpoint/boxes_test.cpp -- box arithmetic against counting every element.
#include "checkpoint/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

class Random {
 public:
  explicit Random(uint64_t key) : key_(key) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(philox(key_, 0, count_++)[0] % static_cast<uint64_t>(n)); }

 private:
  uint64_t key_, count_ = 0;
};

Box random_box(const Shape& shape, Random& random) {
  Box box{shape, shape};
  for (int d = 0; d < shape.rank(); ++d) {
    box.offset[d] = random.below(shape[d] + 1);
    box.extent[d] = random.below(shape[d] - box.offset[d] + 1);
  }
  return box;
}

bool holds(const Box& box, const Shape& at) {
  for (int d = 0; d < at.rank(); ++d)
    if (at[d] < box.offset[d] || at[d] >= box.offset[d] + box.extent[d]) return false;
  return true;
}

void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  for (int64_t i = 0; i < shape.numel(); ++i) {
    Shape at = shape;
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[d] = rest % shape[d];
      rest /= shape[d];
    }
    visit(at);
  }
}

int64_t flat_in(const Box& box, const Shape& at) {
  int64_t flat = 0;
  for (int d = 0; d < at.rank(); ++d) flat = flat * box.extent[d] + at[d] - box.offset[d];
  return flat;
}

}  // namespace

TEST_CASE("the runs of a copy pair every common element with itself, once and in order", "[checkpoint]") {
  for (uint64_t trial = 0; trial < 400; ++trial) {
    Random random(trial);
    Shape shape;
    for (int64_t d = random.below(5); d > 0; --d) shape.push_back(1 + random.below(5));
    const Box a = random_box(shape, random), b = random_box(shape, random);
    std::vector<std::pair<int64_t, int64_t>> expected, got;
    for_each_index(shape, [&](const Shape& at) {
      if (holds(a, at) && holds(b, at)) expected.emplace_back(flat_in(a, at), flat_in(b, at));
    });
    const std::optional<Box> common = intersect(a, b);
    CHECK(common.has_value() == !expected.empty());
    if (common)
      for_each_run(*common, a, b, [&](int64_t from, int64_t to, int64_t count) {
        for (int64_t i = 0; i < count; ++i) got.emplace_back(from + i, to + i);
      });
    REQUIRE(got == expected);
  }
}

TEST_CASE("boxes that meet row for row are copied in one run", "[checkpoint]") {
  const Box source{{4, 0, 0}, {4, 6, 5}}, target{{0, 0, 0}, {8, 6, 5}};
  int runs = 0;
  for_each_run(source, source, target, [&](int64_t, int64_t, int64_t count) {
    ++runs;
    CHECK(count == 4 * 6 * 5);
  });
  CHECK(runs == 1);
}

TEST_CASE("a cover is exact when counting every element says so", "[checkpoint]") {
  int exact = 0;
  for (uint64_t trial = 0; trial < 600; ++trial) {
    Random random(1000 + trial);
    Shape shape;
    for (int64_t d = random.below(4); d > 0; --d) shape.push_back(1 + random.below(4));
    std::vector<Box> boxes;
    if (trial % 2 == 0 && shape.rank() > 0) {  // a true partition, sometimes spoiled below
      for (int64_t at = 0; at < shape[0];) {
        Box box{shape, shape};
        for (int d = 0; d < shape.rank(); ++d) box.offset[d] = 0;
        box.offset[0] = at;
        box.extent[0] = 1 + random.below(shape[0] - at);
        at += box.extent[0];
        boxes.push_back(box);
      }
      if (trial % 6 == 0) boxes.push_back(random_box(shape, random));
      if (trial % 10 == 0) boxes.pop_back();
    } else {
      for (int64_t n = random.below(4); n > 0; --n) boxes.push_back(random_box(shape, random));
    }
    bool once = true;
    for_each_index(shape, [&](const Shape& at) {
      once = once && std::count_if(boxes.begin(), boxes.end(), [&](const Box& b) { return holds(b, at); }) == 1;
    });
    CHECK(cover_fault(shape, boxes).empty() == once);
    exact += once;
  }
  CHECK(exact > 100);
}

TEST_CASE("huge and negative extents are refused, never multiplied into something small", "[checkpoint]") {
  const int64_t big = int64_t{1} << 62;
  CHECK_FALSE(checked_volume({big, 4}).has_value());
  CHECK_FALSE(checked_volume({3, -1}).has_value());
  CHECK(checked_volume({big, big, 0}) == 0);
  CHECK(checked_volume({}) == 1);
  CHECK_FALSE(cover_fault({4, 4}, {Box{{INT64_MAX, 0}, {INT64_MAX, 4}}}).empty());
  CHECK_FALSE(cover_fault({big}, {Box{{0}, {big}}, Box{{0}, {big}}, Box{{0}, {big}}}).empty());
  CHECK_FALSE(cover_fault({4}, {Box{{0, 0}, {2, 2}}}).empty());
}

TEST_CASE("an exact cover by very many boxes is found, however they are cut", "[checkpoint]") {
  constexpr int64_t kMany = 300'000;  // comparing each with each would take minutes
  for (const int cut : {0, 1, 2}) {
    Shape shape{1, 1, 1};
    shape[cut] = kMany;
    std::vector<Box> boxes;
    for (int64_t i = 0; i < kMany; ++i) {
      Box box{Shape{0, 0, 0}, Shape{1, 1, 1}};
      box.offset[cut] = i;
      boxes.push_back(box);
    }
    CHECK(cover_fault(shape, boxes) == "");
    boxes[5].offset[cut] = 6;
    CHECK(cover_fault(shape, boxes) == fmt::format("boxes overlap at {}", to_string(boxes[5].offset)));
  }
}

}  // namespace trainctl::testing
