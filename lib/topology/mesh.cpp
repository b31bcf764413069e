// lib/topology/mesh.cpp -- mixed-radix arithmetic between ranks and coordinates.
#include "topology/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"tensor", "context", "expert", "data", "pipeline"};
constexpr std::array<std::string_view, 5> kShortNames = {"tp", "cp", "ep", "dp", "pp"};

int64_t degree(const MeshDegrees& d, Axis axis) {
  return std::array{d.tensor, d.context, d.expert, d.data, d.pipeline}[static_cast<size_t>(axis)];
}

// The divisors of `n` on both sides of `wanted`, as "4 or 8".
std::string nearest_divisors(int64_t n, int64_t wanted) {
  int64_t below = 1, above = n;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    for (const int64_t divisor : {d, n / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  return below == above || above < wanted ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

void require_degrees(const MeshDegrees& degrees) {
  for (const Axis axis : kAxes)
    if (degree(degrees, axis) < 1)
      fail(ErrorKind::plan, fmt::format("{}_parallel is {}; it must be an integer >= 1 (1 switches the axis off)",
                                        name(axis), degree(degrees, axis)));
}

// tensor * context * pipeline * data; nothing when it leaves the range of a rank number.
int64_t world_of(const MeshDegrees& degrees) {
  constexpr int64_t limit = std::numeric_limits<int>::max();
  int64_t world = 1;
  for (const int64_t d : {degrees.tensor, degrees.context, degrees.data, degrees.pipeline}) {
    if (d > limit / world)
      fail(
          ErrorKind::plan,
          fmt::format("tensor_parallel {} x context_parallel {} x data_parallel {} x pipeline_parallel {} is more than "
                      "the {} ranks that can be numbered: lower one of them",
                      degrees.tensor, degrees.context, degrees.data, degrees.pipeline, limit));
    world *= d;
  }
  return world;
}

}  // namespace

std::string_view name(Axis axis) { return kNames[static_cast<size_t>(axis)]; }
std::string_view short_name(Axis axis) { return kShortNames[static_cast<size_t>(axis)]; }

int Coordinates::along(Axis axis) const {
  return std::array{tensor, context, expert, data, pipeline}[static_cast<size_t>(axis)];
}

std::string product_text(const MeshDegrees& d) {
  const std::string expert = d.expert == 1 ? "" : fmt::format(" (expert_parallel {} divides it)", d.expert);
  return fmt::format("tensor_parallel {} x context_parallel {} x data_parallel {}{} x pipeline_parallel {} = {}",
                     d.tensor, d.context, d.data, expert, d.pipeline, world_of(d));
}

std::array<Axis, 5> parse_order(std::string_view order) {
  constexpr std::string_view rule = "it must hold each of tp, cp, ep, dp, pp once, for example \"tp-cp-ep-dp-pp\"";
  std::vector<Axis> axes;
  for (size_t begin = 0; begin <= order.size();) {
    const size_t end = std::min(order.find('-', begin), order.size());
    const std::string_view word = order.substr(begin, end - begin);
    const auto at = std::find(kShortNames.begin(), kShortNames.end(), word);
    if (at == kShortNames.end())
      fail(ErrorKind::plan, fmt::format("order is \"{}\": \"{}\" is no axis; {}", order, word, rule));
    const Axis axis = kAxes[static_cast<size_t>(at - kShortNames.begin())];
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      fail(ErrorKind::plan, fmt::format("order is \"{}\": \"{}\" appears twice; {}", order, word, rule));
    axes.push_back(axis);
    begin = end + 1;
  }
  for (const Axis axis : kAxes)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      fail(ErrorKind::plan, fmt::format("order is \"{}\": \"{}\" is missing; {}", order, short_name(axis), rule));
  std::array<Axis, 5> result{};
  std::copy(axes.begin(), axes.end(), result.begin());
  return result;
}

Mesh::Mesh(const MeshDegrees& degrees, std::string_view order) : degrees_(degrees), order_(parse_order(order)) {
  require_degrees(degrees);
  world_size_ = static_cast<int>(world_of(degrees));
  if (degrees.data % degrees.expert != 0)
    fail(ErrorKind::plan, fmt::format("expert_parallel is {}; it must divide data_parallel {}; nearest legal: {}",
                                      degrees.expert, degrees.data, nearest_divisors(degrees.data, degrees.expert)));
  tensor_.size = static_cast<int>(degrees.tensor);
  context_.size = static_cast<int>(degrees.context);
  expert_.size = static_cast<int>(degrees.expert);
  block_.size = static_cast<int>(degrees.data / degrees.expert);
  pipeline_.size = static_cast<int>(degrees.pipeline);
  int stride = 1;
  for (const Axis axis : order_) {
    Digit& digit = *std::array{&tensor_, &context_, &expert_, &block_, &pipeline_}[static_cast<size_t>(axis)];
    digit.stride = stride;
    stride *= digit.size;
  }
}

int Mesh::size(Axis axis) const { return static_cast<int>(degree(degrees_, axis)); }

void Mesh::require_rank(int rank) const {
  if (rank < 0 || rank >= world_size_) [[unlikely]]
    fail(ErrorKind::internal, fmt::format("rank {} is outside the world of {} ranks", rank, world_size_));
}

Coordinates Mesh::coordinates(int rank) const {
  require_rank(rank);
  const int e = expert_.of(rank);
  return {.tensor = tensor_.of(rank),
          .context = context_.of(rank),
          .expert = e,
          .data = block_.of(rank) * expert_.size + e,
          .pipeline = pipeline_.of(rank)};
}

int Mesh::rank_of(const Coordinates& c) const {
  for (const Axis axis : kAxes)
    if (c.along(axis) < 0 || c.along(axis) >= size(axis)) [[unlikely]]
      fail(ErrorKind::internal, fmt::format("{} coordinate {} is outside the mesh of {} along that axis", name(axis),
                                            c.along(axis), size(axis)));
  ensure(c.expert == c.data % expert_.size, "the expert coordinate must be the data coordinate modulo expert_parallel");
  return c.tensor * tensor_.stride + c.context * context_.stride + c.expert * expert_.stride +
         c.data / expert_.size * block_.stride + c.pipeline * pipeline_.stride;
}

std::vector<int> Mesh::along(int rank, const Digit& slow, const Digit& fast) const {
  require_rank(rank);
  const int base = rank - slow.of(rank) * slow.stride - fast.of(rank) * fast.stride;
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(slow.size) * static_cast<size_t>(fast.size));
  for (int i = 0; i < slow.size; ++i)
    for (int j = 0; j < fast.size; ++j) ranks.push_back(base + i * slow.stride + j * fast.stride);
  return ranks;
}

std::vector<int> Mesh::group_of(int rank, Axis axis) const {
  const Digit one;
  switch (axis) {
    case Axis::tensor:
      return along(rank, one, tensor_);
    case Axis::context:
      return along(rank, one, context_);
    case Axis::expert:
      return along(rank, one, expert_);
    case Axis::data:
      return along(rank, block_, expert_);
    case Axis::pipeline:
      return along(rank, one, pipeline_);
  }
  fail(ErrorKind::internal, "an axis outside the enumeration");
}

std::vector<int> Mesh::expert_data_group_of(int rank) const { return along(rank, Digit{}, block_); }

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < world_size_; ++rank) {
    // A group's first member has coordinate 0 along its axis (for data: both digits), and the smallest rank.
    const bool first = axis == Axis::tensor     ? tensor_.of(rank) == 0
                       : axis == Axis::context  ? context_.of(rank) == 0
                       : axis == Axis::expert   ? expert_.of(rank) == 0
                       : axis == Axis::pipeline ? pipeline_.of(rank) == 0
                                                : expert_.of(rank) == 0 && block_.of(rank) == 0;
    if (first) all.push_back(group_of(rank, axis));
  }
  return all;
}

std::vector<std::vector<int>> Mesh::expert_data_groups() const {
  std::vector<std::vector<int>> all;
  for (int rank = 0; rank < world_size_; ++rank)
    if (block_.of(rank) == 0) all.push_back(expert_data_group_of(rank));
  return all;
}

MeshDegrees fit_world(MeshDegrees degrees, int64_t world_size) {
  const bool fill = degrees.data == 0;
  if (fill) degrees.data = 1;
  require_degrees(degrees);
  if (world_size < 1) fail(ErrorKind::plan, fmt::format("the world has {} ranks; it needs at least 1", world_size));
  const int64_t product = world_of(degrees);
  const int64_t replica = product / degrees.data;  // ranks of one copy of the model
  if (fill) degrees.data = std::max<int64_t>(world_size / replica, 1);
  if (world_of(degrees) == world_size && degrees.data % degrees.expert == 0) return degrees;

  // Legal worlds are multiples of one replica, times expert_parallel.
  const int64_t unit = replica * degrees.expert;
  std::vector<std::string> legal;
  if (world_size % unit == 0) {
    legal.push_back(fmt::format("data_parallel {} on {}", world_size / replica, counted(world_size, "rank")));
  } else {
    const int64_t below = world_size / unit * unit, above = below + unit;
    if (below > 0) legal.push_back(fmt::format("{} (data_parallel {})", counted(below, "rank"), below / replica));
    legal.push_back(fmt::format("{} (data_parallel {})", counted(above, "rank"), above / replica));
    const int64_t rest = degrees.context * degrees.pipeline * (fill ? 1 : degrees.data);
    if (world_size % rest == 0 && degrees.expert == 1)
      legal.push_back(
          fmt::format("tensor_parallel {} on {}",
                      fill ? nearest_divisors(world_size / rest, degrees.tensor) : fmt::format("{}", world_size / rest),
                      counted(world_size, "rank")));
    if (world_size % replica == 0 && degrees.expert > 1)
      legal.push_back(fmt::format("expert_parallel {} on {}", nearest_divisors(world_size / replica, degrees.expert),
                                  counted(world_size, "rank")));
  }
  fail(ErrorKind::plan,
       fmt::format(
           "the layout does not fit {}: {}{}{}. Nearest legal with the other degrees kept: {}",
           counted(world_size, "rank"), product_text(degrees), fill ? ", data_parallel being derived" : "",
           degrees.data % degrees.expert == 0
               ? ""
               : fmt::format(", and expert_parallel {} does not divide data_parallel {}", degrees.expert, degrees.data),
           fmt::join(legal, "; or ")));
}

}  // namespace trainctl
