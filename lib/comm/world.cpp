// lib/comm/world.cpp -- process groups of the mesh axes; their ids are equal on every rank by construction.
#include "comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace trainctl {
namespace {

// Groups of one axis never share a rank, so one id per axis keeps their messages apart.
enum GroupId { kWorld = 0, kFirstAxis = 1, kEmbedding = kFirstAxis + static_cast<int>(kAxes.size()), kUncounted };

constexpr std::array kOperations = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                    Operation::all_to_all, Operation::broadcast,  Operation::send,
                                    Operation::recv,       Operation::barrier};

GroupInfo info_of(int id, std::string axis, std::vector<int> ranks, int rank) {
  GroupInfo info{.id = id, .axis = std::move(axis), .ranks = std::move(ranks), .index = 0};
  const auto me = std::find(info.ranks.begin(), info.ranks.end(), rank);
  ensure(me != info.ranks.end(), "a rank is missing from its own group");
  info.index = static_cast<int>(me - info.ranks.begin());
  return info;
}

}  // namespace

std::vector<GroupInfo> mesh_groups(const Mesh& mesh, int rank) {
  std::vector<GroupInfo> groups;
  std::vector<int> everyone(static_cast<size_t>(mesh.world_size()));
  for (int r = 0; r < mesh.world_size(); ++r) everyone[static_cast<size_t>(r)] = r;
  groups.push_back(info_of(kWorld, "world", std::move(everyone), rank));
  for (const Axis axis : kAxes)
    groups.push_back(
        info_of(kFirstAxis + static_cast<int>(axis), std::string(name(axis)), mesh.group_of(rank, axis), rank));
  const std::vector<int> pipeline = mesh.group_of(rank, Axis::pipeline);
  const bool at_an_end = rank == pipeline.front() || rank == pipeline.back();
  groups.push_back(info_of(
      kEmbedding, "embedding",
      pipeline.size() > 1 && at_an_end ? std::vector<int>{pipeline.front(), pipeline.back()} : std::vector<int>{rank},
      rank));
  return groups;
}

World::World(Mesh mesh, std::unique_ptr<Collectives> backend, Arena& arena)
    : mesh_(std::move(mesh)), backend_(std::move(backend)) {
  ensure(backend_ != nullptr, "a world needs a communication backend");
  if (backend_->size() != mesh_.world_size())
    fail(ErrorKind::comm, fmt::format("the mesh has {} ({}), but {} running; start as many as the mesh has",
                                      counted(mesh_.world_size(), "rank"), product_text(mesh_.degrees()),
                                      counted(backend_->size(), "is", "are")));
  if (backend_->rank() < 0 || backend_->rank() >= mesh_.world_size())
    fail(ErrorKind::comm,
         fmt::format("rank {} is not in a mesh of {}", backend_->rank(), counted(mesh_.world_size(), "rank")));
  coordinates_ = mesh_.coordinates(backend_->rank());
  for (GroupInfo& info : mesh_groups(mesh_, rank()))
    groups_.push_back(std::make_unique<ProcessGroup>(std::move(info), *backend_, arena, recorder_));
  uncounted_ = info_of(kUncounted, "uncounted", all().info().ranks, rank());
}

int World::rank() const { return backend_->rank(); }
int World::size() const { return backend_->size(); }
ProcessGroup& World::group(Axis axis) { return *groups_[static_cast<size_t>(kFirstAxis + static_cast<int>(axis))]; }
ProcessGroup& World::all() { return *groups_[kWorld]; }
ProcessGroup& World::embedding_ends() { return *groups_[kEmbedding]; }

std::vector<TrafficRow> World::traffic() const {
  std::vector<TrafficRow> rows;
  for (const auto& group : groups_)
    for (const Operation operation : kOperations) {
      const Cost cost = backend_->sent(group->info(), operation);
      if (cost.messages > 0)
        rows.push_back({group->info().axis, std::string(name(operation)), cost.messages, cost.bytes});
    }
  return rows;
}

Pending World::start_uncounted(Request request) {
  const int64_t ticket = recorder_.begin(uncounted_, request);
  request.completed = [&recorder = recorder_, ticket] { recorder.end(ticket); };
  return Pending(backend_->start(uncounted_, request, nullptr), {});
}

Pending World::send_bytes(int to, const void* data, int64_t bytes) {
  Request request;
  request.operation = Operation::send;
  request.in = data;
  request.rows = bytes;
  request.row_elements = 1;
  request.peer = to;
  return start_uncounted(std::move(request));
}

Pending World::receive_bytes(int from, void* data, int64_t bytes) {
  Request request;
  request.operation = Operation::recv;
  request.out = data;
  request.rows = bytes;
  request.row_elements = 1;
  request.peer = from;
  return start_uncounted(std::move(request));
}

std::vector<std::string> World::gather_text(const std::string& text, Stream& stream) {
  stream.synchronize();  // the texts are in host memory and are ready
  std::vector<int64_t> lengths(static_cast<size_t>(size()), 0);
  lengths[static_cast<size_t>(rank())] = static_cast<int64_t>(text.size());
  Request sizes;
  sizes.operation = Operation::all_gather;
  sizes.dtype = DType::i64;
  sizes.in = &lengths[static_cast<size_t>(rank())];
  sizes.out = lengths.data();
  sizes.rows = size();
  sizes.row_elements = 1;
  start_uncounted(std::move(sizes)).wait();
  if (rank() != 0) {
    send_bytes(0, text.data(), static_cast<int64_t>(text.size())).wait();
    return {};
  }
  std::vector<std::string> texts(static_cast<size_t>(size()));
  texts[0] = text;
  std::vector<Pending> messages;  // after the texts: where one fails, the others are waited for before those go
  for (int r = 1; r < size(); ++r) {
    std::string& to = texts[static_cast<size_t>(r)];
    to.resize(static_cast<size_t>(lengths[static_cast<size_t>(r)]));
    messages.push_back(receive_bytes(r, to.data(), static_cast<int64_t>(to.size())));
  }
  for (Pending& message : messages) message.wait();
  return texts;
}

void World::finalize() { backend_->finalize(); }

}  // namespace trainctl
