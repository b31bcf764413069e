// lib/topology/mesh.h -- ranks laid out over named axes: coordinates, and the groups of ranks along each axis.
//
// world_size = tensor * context * data * pipeline. The expert axis is no factor of the world: it divides the data
// ranks. Data coordinate d belongs to expert coordinate d % expert, so an expert group is `expert` neighbouring data
// ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl {

enum class Axis : uint8_t { tensor, context, expert, data, pipeline };
inline constexpr std::array<Axis, 5> kAxes = {Axis::tensor, Axis::context, Axis::expert, Axis::data, Axis::pipeline};

std::string_view name(Axis axis);        // "tensor", "context", "expert", "data", "pipeline"
std::string_view short_name(Axis axis);  // "tp", "cp", "ep", "dp", "pp"

struct MeshDegrees {
  int64_t tensor = 1, context = 1, expert = 1, data = 1, pipeline = 1;  // each >= 1; data % expert == 0
  bool operator==(const MeshDegrees&) const = default;
};

// Where a rank stands. `data` counts all data ranks; `expert` is data % degrees.expert.
struct Coordinates {
  int tensor = 0, context = 0, expert = 0, data = 0, pipeline = 0;
  bool operator==(const Coordinates&) const = default;
  int along(Axis axis) const;
};

// "tensor_parallel 2 x context_parallel 1 x data_parallel 4 (expert_parallel 2) x pipeline_parallel 1 = 8"
std::string product_text(const MeshDegrees& degrees);

// The order string, fastest varying axis first, as five axes. Accepts any permutation of tp, cp, ep, dp, pp.
// Throws Error{plan} naming the missing, doubled or unknown axis.
std::array<Axis, 5> parse_order(std::string_view order);

class Mesh {
 public:
  // Throws Error{plan}: a degree below 1 (named tensor_parallel, ...), expert_parallel that does not divide
  // data_parallel (with the nearest that do), a world beyond 2^31 - 1 ranks, a bad order.
  explicit Mesh(const MeshDegrees& degrees, std::string_view order = "tp-cp-ep-dp-pp");

  int world_size() const { return world_size_; }
  const MeshDegrees& degrees() const { return degrees_; }
  const std::array<Axis, 5>& order() const { return order_; }
  int size(Axis axis) const;  // ranks per group of `axis`

  // Inverse of each other; O(1). A rank or coordinate outside the mesh, or expert != data % degrees.expert, is
  // Error{internal}.
  Coordinates coordinates(int rank) const;
  int rank_of(const Coordinates& c) const;

  // Ranks that differ from `rank` only along `axis`, `rank` included, sorted by that coordinate.
  // data: all data ranks (expert varies with it). expert: the ranks of one block of neighbouring data coordinates.
  std::vector<int> group_of(int rank, Axis axis) const;
  // All groups of `axis`; disjoint, together the world; sorted by first member.
  std::vector<std::vector<int>> groups(Axis axis) const;

  // Ranks that hold copies of the same experts: same tensor, context, expert, pipeline coordinate; sorted by data.
  std::vector<int> expert_data_group_of(int rank) const;
  std::vector<std::vector<int>> expert_data_groups() const;

 private:
  // The data axis is stored as two digits: d = block * expert + e, each with its own stride.
  struct Digit {
    int size = 1, stride = 1;
    int of(int rank) const { return rank / stride % size; }
  };
  std::vector<int> along(int rank, const Digit& slow, const Digit& fast) const;
  void require_rank(int rank) const;

  MeshDegrees degrees_;
  std::array<Axis, 5> order_{};
  int world_size_ = 1;
  Digit tensor_, context_, expert_, block_, pipeline_;
};

// The mesh degrees of a world: `degrees.data` 0 means "fill", i.e. world_size / (tensor * context * pipeline).
// Throws Error{plan} when they do not multiply to `world_size`, with every degree, the product and the nearest legal
// layouts.
MeshDegrees fit_world(MeshDegrees degrees, int64_t world_size);

}  // namespace trainctl
