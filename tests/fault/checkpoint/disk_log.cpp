// tests/fault/checkpoint/disk_log.cpp -- system calls to operations on inodes.
#include "fault/checkpoint/disk_log.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>

#include "fault/checkpoint/trace.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

using Kind = DiskOp::Kind;

struct Place {
  int dir = -1;  // -1: outside the folder
  std::string name;
};

struct OpenFile {
  int inode = -1;
  int64_t position = 0;
};

class Recorder {
 public:
  Recorder(const fs::path& folder, std::vector<DiskNode> nodes) : root_(folder.string()), nodes_(std::move(nodes)) {
    log_.before = nodes_;
  }

  void take(const TracedCall& call) {
    static const std::map<std::string, void (Recorder::*)(const TracedCall&)> table = {
        {"openat", &Recorder::open},       {"close", &Recorder::close},        {"fcntl", &Recorder::duplicate},
        {"mkdir", &Recorder::make_folder}, {"write", &Recorder::write},        {"pwrite64", &Recorder::write},
        {"pwritev", &Recorder::write},     {"ftruncate", &Recorder::truncate}, {"fallocate", &Recorder::allocate},
        {"fsync", &Recorder::sync},        {"fdatasync", &Recorder::sync},     {"rename", &Recorder::rename},
        {"renameat2", &Recorder::rename},  {"unlink", &Recorder::unlink},      {"rmdir", &Recorder::unlink},
        {"unlinkat", &Recorder::unlink},   {"clone", &Recorder::clone},        {"clone3", &Recorder::clone},
        {"vfork", &Recorder::clone},       {"fork", &Recorder::clone}};
    const auto found = table.find(call.name);
    if (found != table.end() && !call.result.starts_with("-1") && !call.result.starts_with("?"))
      (this->*found->second)(call);
  }

  DiskLog finish() {
    for (size_t i = log_.before.size(); i < nodes_.size(); ++i) log_.before.push_back({nodes_[i].is_folder, "", {}});
    return std::move(log_);
  }

 private:
  int64_t process_of(int64_t thread) const {
    const auto found = process_.find(thread);
    return found == process_.end() ? thread : found->second;
  }
  OpenFile* file(const TracedCall& call) {
    const auto found = files_.find({process_of(call.thread), std::stoll(call.arguments)});
    return found == files_.end() ? nullptr : &found->second;
  }
  void record(DiskOp op) {
    perform(op, nodes_);
    log_.ops.push_back(std::move(op));
  }
  std::optional<int> entry(const Place& place) const {
    if (place.dir < 0) return std::nullopt;
    if (place.name.empty()) return place.dir;
    const auto& entries = nodes_[static_cast<size_t>(place.dir)].entries;
    const auto found = entries.find(place.name);
    return found == entries.end() ? std::nullopt : std::optional(found->second);
  }

  // The next path in the arguments; `from` is moved behind it. A number in front of it is an open folder.
  Place place(const TracedCall& call, size_t& from) const {
    const size_t word = call.arguments.find_first_not_of(", ", from);
    int dir = -1;
    if (word != std::string::npos && std::isdigit(static_cast<unsigned char>(call.arguments[word]))) {
      const auto open = files_.find({process_of(call.thread), std::stoll(call.arguments.substr(word))});
      if (open != files_.end()) dir = open->second.inode;
    }
    std::string path = unescape_hex(call.arguments, from, &from);
    ++from;
    if (path.starts_with('/')) {
      if (path != root_ && !path.starts_with(root_ + "/")) return {};
      path.erase(0, std::min(path.size(), root_.size() + 1));
      dir = 0;
    }
    Place result{dir, path};
    for (size_t slash = path.find('/'); result.dir >= 0 && slash != std::string::npos; slash = path.find('/')) {
      result.dir = entry({result.dir, path.substr(0, slash)}).value_or(-1);
      path.erase(0, slash + 1);
      result.name = path;
    }
    return result;
  }

  void open(const TracedCall& call) {
    size_t at = 0;
    const Place where = place(call, at);
    if (where.dir < 0) return;
    std::optional<int> inode = entry(where);
    if (!inode) inode = add(where, false);
    const bool truncates = call.arguments.find("O_TRUNC", at) != std::string::npos;
    if (truncates) record({.kind = Kind::set_size, .inode = *inode});
    files_[{process_of(call.thread), std::stoll(call.result)}] = {*inode, 0};
  }
  int add(const Place& where, bool is_folder) {
    const int inode = static_cast<int>(nodes_.size());
    nodes_.push_back({is_folder, "", {}});
    record({.kind = Kind::add, .inode = inode, .dir = where.dir, .name = where.name});
    return inode;
  }
  void close(const TracedCall& call) { files_.erase({process_of(call.thread), std::stoll(call.arguments)}); }
  void duplicate(const TracedCall& call) {
    if (call.arguments.find("F_DUPFD") == std::string::npos) return;
    if (const OpenFile* f = file(call)) files_[{process_of(call.thread), std::stoll(call.result)}] = *f;
  }
  void clone(const TracedCall& call) {
    const int64_t child = std::stoll(call.result), parent = process_of(call.thread);
    process_[child] = call.arguments.find("CLONE_THREAD") == std::string::npos ? child : parent;
  }
  void make_folder(const TracedCall& call) {
    size_t at = 0;
    if (const Place where = place(call, at); where.dir >= 0) add(where, true);
  }
  void write(const TracedCall& call) {
    OpenFile* f = file(call);
    if (f == nullptr) return;
    std::string data;
    size_t at = 0;
    for (; call.arguments.find('"', at) != std::string::npos; ++at) data += unescape_hex(call.arguments, at, &at);
    data.resize(std::stoull(call.result));
    const bool positioned = call.name != "write";
    const int64_t offset = positioned ? std::stoll(call.arguments.substr(call.arguments.rfind(", ") + 2)) : f->position;
    if (!positioned) f->position += static_cast<int64_t>(data.size());
    record({.kind = Kind::write, .inode = f->inode, .data = std::move(data), .offset = offset});
  }
  void truncate(const TracedCall& call) {
    if (const OpenFile* f = file(call))
      record({.kind = Kind::set_size,
              .inode = f->inode,
              .offset = std::stoll(call.arguments.substr(call.arguments.rfind(", ") + 2))});
  }
  void allocate(const TracedCall& call) {  // fd, mode, offset, length
    const OpenFile* f = file(call);
    if (f == nullptr || call.arguments.find(", 0, ") == std::string::npos) return;
    const size_t last = call.arguments.rfind(", "), before = call.arguments.rfind(", ", last - 1);
    const int64_t end = std::stoll(call.arguments.substr(before + 2)) + std::stoll(call.arguments.substr(last + 2));
    if (end > static_cast<int64_t>(nodes_[static_cast<size_t>(f->inode)].content.size()))
      record({.kind = Kind::set_size, .inode = f->inode, .offset = end});
  }
  void sync(const TracedCall& call) {
    if (const OpenFile* f = file(call)) record({.kind = Kind::sync, .inode = f->inode});
  }
  void rename(const TracedCall& call) {
    size_t at = 0;
    const Place from = place(call, at);
    const Place to = place(call, at);
    if (from.dir < 0 && to.dir < 0) return;
    const std::optional<int> inode = entry(from);
    if (!inode || to.dir < 0) throw std::runtime_error("a rename over the border of the folder: " + call.arguments);
    record({.kind = Kind::rename,
            .inode = *inode,
            .dir = from.dir,
            .new_dir = to.dir,
            .name = from.name,
            .new_name = to.name});
  }
  void unlink(const TracedCall& call) {
    size_t at = 0;
    if (const Place where = place(call, at); where.dir >= 0)
      record({.kind = Kind::remove, .dir = where.dir, .name = where.name});
  }

  std::string root_;
  std::vector<DiskNode> nodes_;
  DiskLog log_;
  std::map<int64_t, int64_t> process_;  // thread -> its process
  std::map<std::pair<int64_t, int64_t>, OpenFile> files_;
};

// For every file whose bytes now are not what the seen writes make of it: writes of them before its first sync.
void add_unseen_writes(DiskLog& log, const std::vector<DiskNode>& now) {
  std::vector<DiskNode> nodes = log.before;
  for (const DiskOp& op : log.ops) perform(op, nodes);
  const std::function<void(int, int)> visit = [&](int ours, int real) {
    const DiskNode &a = nodes[static_cast<size_t>(ours)], &b = now[static_cast<size_t>(real)];
    for (const auto& [name, inode] : a.entries)
      if (const auto found = b.entries.find(name); found != b.entries.end()) visit(inode, found->second);
    if (a.is_folder || b.is_folder || a.content == b.content) return;
    const auto first_sync = std::find_if(log.ops.begin(), log.ops.end(),
                                         [&](const DiskOp& op) { return op.kind == Kind::sync && op.inode == ours; });
    std::vector<DiskOp> writes;
    for (size_t at = 0; at < b.content.size(); at += 4096)
      writes.push_back(
          {.kind = Kind::write, .inode = ours, .data = b.content.substr(at, 4096), .offset = static_cast<int64_t>(at)});
    log.ops.insert(first_sync, writes.begin(), writes.end());
  };
  visit(0, 0);
}

}  // namespace

void perform(const DiskOp& op, std::vector<DiskNode>& nodes) {
  const auto node = [&nodes](int i) -> DiskNode& { return nodes[static_cast<size_t>(i)]; };
  switch (op.kind) {
    case Kind::add:
      node(op.dir).entries[op.name] = op.inode;
      break;
    case Kind::remove:
      node(op.dir).entries.erase(op.name);
      break;
    case Kind::rename:
      node(op.dir).entries.erase(op.name);
      node(op.new_dir).entries[op.new_name] = op.inode;
      break;
    case Kind::write: {
      std::string& content = node(op.inode).content;
      const auto offset = static_cast<size_t>(op.offset);
      if (content.size() < offset + op.data.size()) content.resize(offset + op.data.size());
      content.replace(offset, op.data.size(), op.data);
      break;
    }
    case Kind::set_size:
      node(op.inode).content.resize(static_cast<size_t>(op.offset));
      break;
    case Kind::sync:
      break;
  }
}

std::vector<DiskNode> read_tree(const fs::path& folder) {
  std::vector<DiskNode> nodes(1);
  nodes[0].is_folder = true;
  const std::function<void(const fs::path&, size_t)> visit = [&](const fs::path& path, size_t at) {
    for (const auto& e : fs::directory_iterator(path)) {
      const size_t inode = nodes.size();
      nodes[at].entries[e.path().filename().string()] = static_cast<int>(inode);
      nodes.push_back({e.is_directory(), e.is_directory() ? "" : file_bytes(e.path()), {}});
      if (e.is_directory()) visit(e.path(), inode);
    }
  };
  visit(folder, 0);
  return nodes;
}

bool same_tree(const std::vector<DiskNode>& a, int at_a, const std::vector<DiskNode>& b, int at_b) {
  const DiskNode &x = a[static_cast<size_t>(at_a)], &y = b[static_cast<size_t>(at_b)];
  if (x.is_folder != y.is_folder || x.content != y.content || x.entries.size() != y.entries.size()) return false;
  return std::equal(x.entries.begin(), x.entries.end(), y.entries.begin(), [&](const auto& e, const auto& f) {
    return e.first == f.first && same_tree(a, e.second, b, f.second);
  });
}

DiskLog disk_log_of(const std::string& log, const fs::path& folder, std::vector<DiskNode> before) {
  std::vector<TracedCall> calls = parse_trace(log);
  // What is done counts when it is done; what a sync covers is what was done before it began; and a number is free for
  // another thread's file while its close is still on the way back.
  std::stable_sort(calls.begin(), calls.end(), [](const TracedCall& a, const TracedCall& b) {
    const auto when = [](const TracedCall& c) {
      return c.name == "fsync" || c.name == "fdatasync" || c.name == "close" ? c.entered : c.left;
    };
    return when(a) < when(b);
  });
  Recorder recorder(folder, std::move(before));
  for (const TracedCall& call : calls) recorder.take(call);
  DiskLog result = recorder.finish();
  const std::vector<DiskNode> now = read_tree(folder);
  add_unseen_writes(result, now);
  std::vector<DiskNode> end = result.before;
  for (const DiskOp& op : result.ops) perform(op, end);
  if (!same_tree(end, 0, now, 0)) throw std::runtime_error("the write log does not give the files that are on disk");
  return result;
}

}  // namespace trainctl::testing
