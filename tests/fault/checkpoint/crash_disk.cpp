// tests/fault/checkpoint/crash_disk.cpp -- which changes survive.
#include "fault/checkpoint/crash_disk.h"

#include <functional>

#include "base/hash.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
namespace {

using Kind = DiskOp::Kind;

bool is_between_folders(const DiskOp& op) { return op.kind == Kind::rename && op.dir != op.new_dir; }

DiskOp added_half(const DiskOp& op) {
  return {.kind = Kind::add, .inode = op.inode, .dir = op.new_dir, .name = op.new_name};
}

// The write with some of its sectors.
void apply_torn(const DiskOp& op, std::vector<DiskNode>& nodes, std::mt19937_64& random) {
  constexpr size_t kSector = 512;
  for (size_t at = 0; at < op.data.size(); at += kSector)
    if (random() % 2 == 0)
      perform({.kind = Kind::write,
               .inode = op.inode,
               .data = op.data.substr(at, kSector),
               .offset = op.offset + static_cast<int64_t>(at)},
              nodes);
}

}  // namespace

CrashDisk::CrashDisk(const DiskLog& log) : log_(log), sure_(log.before) {}

void CrashDisk::advance() {
  const DiskOp& op = log_.ops[done_++];
  if (op.kind != Kind::sync) {
    unsure_.push_back({&op});
    return;
  }
  const bool is_folder = sure_[static_cast<size_t>(op.inode)].is_folder;
  std::vector<Change> left;
  for (Change& change : unsure_) {
    const DiskOp& c = *change.op;
    const bool is_data = c.kind == Kind::write || c.kind == Kind::set_size;
    if (is_data ? c.inode == op.inode : is_folder && c.dir == op.inode) {
      perform(c, sure_);
    } else if (is_folder && is_between_folders(c) && c.new_dir == op.inode && !change.added_for_sure) {
      perform(added_half(c), sure_);
      change.added_for_sure = true;
      left.push_back(change);
    } else {
      left.push_back(change);
    }
  }
  unsure_ = std::move(left);
}

size_t CrashDisk::open_questions() const { return unsure_.size(); }

std::vector<DiskNode> CrashDisk::tree_after(const std::vector<Fate>& fates, std::mt19937_64& random) const {
  std::vector<DiskNode> nodes = sure_;
  for (size_t i = 0; i < unsure_.size(); ++i) {
    const DiskOp& op = *unsure_[i].op;
    if (fates[i] == Fate::lost) continue;
    if (fates[i] == Fate::torn && op.kind == Kind::write)
      apply_torn(op, nodes, random);
    else if (fates[i] == Fate::torn && is_between_folders(op))
      perform(added_half(op), nodes);
    else
      perform(op, nodes);
  }
  return nodes;
}

void write_tree(const std::vector<DiskNode>& nodes, int at, const fs::path& to) {
  const DiskNode& node = nodes[static_cast<size_t>(at)];
  if (!node.is_folder) return put_bytes(to, node.content);
  fs::create_directories(to);
  for (const auto& [name, inode] : node.entries) write_tree(nodes, inode, to / name);
}

std::string digest_of(const std::vector<DiskNode>& nodes) {
  std::string text;
  const std::function<void(int)> visit = [&](int at) {
    const DiskNode& node = nodes[static_cast<size_t>(at)];
    text += node.is_folder ? "(" : xxh128_hex(node.content.data(), node.content.size());
    for (const auto& [name, inode] : node.entries) {
      text += name + "=";
      visit(inode);
    }
    text += node.is_folder ? ")" : ",";
  };
  visit(0);
  return xxh128_hex(text.data(), text.size());
}

}  // namespace trainctl::testing
