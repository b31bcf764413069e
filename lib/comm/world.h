// lib/comm/world.h -- one rank's view of the mesh: its coordinates and its process groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "topology/mesh.h"

namespace trainctl {

struct TrafficRow {  // totals since the start, over one rank
  std::string axis, operation;
  int64_t messages = 0, bytes = 0;
  bool operator==(const TrafficRow&) const = default;
};

// The groups of `rank` in a fixed order with ids that are equal on every rank: the world, each axis, the embedding
// ends.
std::vector<GroupInfo> mesh_groups(const Mesh& mesh, int rank);

class World {
 public:
  // Takes the backend; checks that its rank and size fit the mesh. Throws Error{comm} naming both.
  World(Mesh mesh, std::unique_ptr<Collectives> backend, Arena& arena);

  int rank() const;
  int size() const;
  const Mesh& mesh() const { return mesh_; }
  const Coordinates& coordinates() const { return coordinates_; }
  ProcessGroup& group(Axis axis);  // the ranks that differ from this one in that axis alone
  ProcessGroup& all();             // the whole world, axis name "world"
  // First and last pipeline stage of this rank's pipeline group (tied embeddings); size 1 when they are the same or
  // when this rank is on neither. Axis name "embedding".
  ProcessGroup& embedding_ends();
  Recorder& recorder() { return recorder_; }
  std::vector<TrafficRow> traffic() const;  // rows with messages > 0, in a fixed order
  // Bytes between the host memories of two ranks, whatever groups they are in: the k-th send to a rank meets its k-th
  // receive from this one, of the same size. Recorded, but not counted as traffic, and without memory of the arena.
  [[nodiscard]] Pending send_bytes(int to, const void* data, int64_t bytes);
  [[nodiscard]] Pending receive_bytes(int from, void* data, int64_t bytes);
  // Strings from all ranks to rank 0 (in rank order; elsewhere empty); every rank calls it. Not counted as traffic.
  std::vector<std::string> gather_text(const std::string& text, Stream& stream);
  void finalize();  // every rank calls it, with nothing pending

 private:
  Pending start_uncounted(Request request);
  Mesh mesh_;
  Recorder recorder_;  // outlives the backend, whose thread reports to it
  std::unique_ptr<Collectives> backend_;
  Coordinates coordinates_;
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
  GroupInfo uncounted_;  // all ranks, for what is no part of a step
};

}  // namespace trainctl
