// lib/checkpoint/checkpoint_reader.h -- reads boxes of logical tensors out of one checkpoint, whatever layout wrote it.
// No byte is handed out before the digest of its 4 MiB block was verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/block_reader.h"
#include "checkpoint/boxes.h"
#include "checkpoint/format.h"
#include "checkpoint/load_cost.h"
#include "checkpoint/scan.h"

namespace trainctl {

// A box of one tensor, and where its elements go: contiguous, row-major over box.extent, `dtype`.
struct ReadRequest {
  const TensorRecord* tensor = nullptr;
  Box box;
  DType dtype = DType::f32;
  void* to = nullptr;
};

class CheckpointReader {
 public:
  // Throws Error{checkpoint} with the reason when the folder is not usable.
  explicit CheckpointReader(const std::filesystem::path& folder, IoOptions io = {});
  // The same for a folder that another rank has found usable: from the text of its manifest.json, which must have this
  // SHA-256. No file is looked at before it is read, and then block by block. Throws Error{checkpoint}.
  CheckpointReader(const std::filesystem::path& folder, const std::string& manifest_text,
                   const std::string& manifest_sha256, IoOptions io = {});

  const Manifest& manifest() const { return manifest_; }
  const CheckpointInfo& info() const { return info_; }
  const TensorRecord* find(const std::string& name, const std::string& role) const;
  // The tensor whose chunks hold it: what it is an alias of, what it derives from, itself.
  const TensorRecord& storage_of(const TensorRecord& tensor) const;

  // Fills all requests; every block they need is read once, in file order. Aliases are followed, a derived bf16 tensor
  // is cast from what it derives from. Every element is written exactly once. Throws Error{checkpoint} naming the
  // tensor: dtype differs, box leaves the shape (then nothing was written), damaged block.
  // In a world of several ranks: collective, also for a rank without requests; blocks that ranks of one node share are
  // read once there, and all return or all throw (read_shared_blocks).
  void read_all(const std::vector<ReadRequest>& requests, const Agreement& ranks = {});
  // The same of one tensor, alone: for tools, which are told what to do about a damaged block.
  void read(const TensorRecord& tensor, const Box& box, DType dtype, void* to);

  // Of all requests so far; bytes that several of them need count once. Collective over the world.
  LoadCost cost(const Agreement& ranks = {}) const;
  const DamagedBlock* damage() const { return blocks_.damage(); }

 private:
  struct Part;
  void make_index();
  std::vector<Part> parts_of(const std::vector<ReadRequest>& requests) const;

  Manifest manifest_;  // before info_, whose making fills it
  CheckpointInfo info_;
  std::map<std::pair<std::string, std::string>, const TensorRecord*> index_;
  std::map<std::string, const FileRecord*> records_;
  BlockReader blocks_;
  int64_t bytes_needed_ = 0, bytes_received_ = 0;
};

}  // namespace trainctl
