// lib/checkpoint/format.h -- the records of a checkpoint folder: receipts, manifest, COMMITTED, LATEST, UNUSABLE.
// All are canonical JSON: sorted keys, no spaces, floats as hexadecimal text, one newline at the end. What carries its
// own digest (self_xxh128: XXH3-128 of the same text without that member) is refused unless its text is canonical, so a
// flipped byte anywhere in it is seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/boxes.h"
#include "tensor/catalog.h"

namespace trainctl {

inline constexpr int64_t kSchemaMajor = 1, kSchemaMinor = 2;
inline constexpr int64_t kBlockBytes = 4 << 20;
inline constexpr int64_t kMostRanks = 1 << 24;         // of a manifest's `world`
inline constexpr int64_t kMaxRecordBytes = 256 << 20;  // of any JSON record

struct FileRecord {
  std::string path;  // relative to the checkpoint folder
  int64_t rank = 0;  // that wrote it
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  std::vector<std::string> block_xxh128;  // of every 4 MiB from byte 0, the last one shorter
  std::string file_root;                  // XXH3-128 of the concatenated block digests
};

struct ChunkRecord {
  Box box;  // in the logical tensor
  std::string file, key;
  int64_t byte_offset = 0;  // absolute, in the file
  int64_t byte_length = 0;
};

struct TensorRecord {
  std::string name, role;
  DType dtype = DType::f32;
  Shape shape;                    // logical, without padding
  std::string alias_of;           // another name with the same role; then no chunks
  std::string derived_from_role;  // "master": this bf16 tensor is the round-to-nearest-even cast of it; no chunks
  std::vector<ChunkRecord> chunks;
};

// What one rank wrote, or why it could not.
struct Receipt {
  std::string attempt;
  int64_t step = 0, rank = 0;
  bool ok = false;
  std::string reason;      // why not
  int64_t non_finite = 0;  // elements of what it wrote
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;
};

struct ReceiptRecord {
  std::string path;
  int64_t rank = 0, bytes = 0;
  std::string xxh128;
};

// A small file that says what the checkpoint is: meta/config.json, meta/tokenizer/..., as the save was told.
struct MetaRecord {
  std::string path;
  int64_t bytes = 0;
  std::string xxh128;
};

// One of the twelve state classes. state: present | absent | derived; where: what holds it, or what it follows from.
struct StateClass {
  std::string name, state, where;
  std::vector<StateClass> parts{};  // of "versions": data, code, tokenizer, config, features
};

struct Manifest {
  std::string kind;  // training | inference | portable | intermediate
  std::string run_id, attempt, reason;
  int64_t step = 0, created_ns = 0, world = 0;
  std::string parent;  // SHA-256 of the manifest this run was resumed from, "" for none
  std::vector<StateClass> completeness;
  std::string topology, provenance;  // JSON objects as text
  ScalarState scalars;
  int64_t non_finite = 0;
  std::vector<TensorRecord> tensors;  // by name, then role
  std::vector<FileRecord> files;
  std::vector<ReceiptRecord> receipts;
  std::vector<MetaRecord> meta;
};

struct Committed {
  int64_t step = 0;
  std::string attempt, kind, manifest_sha256;
  int64_t manifest_bytes = 0, files = 0, bytes = 0;  // of data
};

struct Latest {
  int64_t step = 0;
  std::string folder, manifest_sha256;
};

// Detectors of UNUSABLE that judge without having read a block.
inline constexpr std::string_view kMarkedByHand = "trainctl checkpoint mark", kMarkedByResume = "resume";

struct Unusable {
  std::string reason, detector, evidence;
  int64_t time_ns = 0;
  // Something read the blocks and found wrong ones. A person's mark and a resume's (superseded) prove nothing.
  bool proves_damage() const { return detector != kMarkedByHand && detector != kMarkedByResume; }
};

std::string to_text(const Receipt& receipt);
std::string to_text(const Manifest& manifest);
// A manifest's text but for its list of tensors (tensor_text.h), whatever `manifest.tensors` says.
struct TextAround {
  std::string before, after;
};
TextAround text_around_tensors(const Manifest& manifest);
std::string to_text(const Committed& committed);
std::string to_text(const Latest& latest);
std::string to_text(const Unusable& unusable);

// Each throws Error{checkpoint} naming `source`, the member and the rule. Nothing in the result leaves its bounds:
// paths are relative and plain, shapes have at most four dimensions and fewer than 2^63 elements, lengths match.
Receipt receipt_from_text(std::string_view text, const std::string& source);
// The list of tensors in a receipt's text; "" when it has none. A receipt whose list is that of another one that was
// read is checked and read but for that: its `tensors` stay empty.
std::string_view tensors_of_receipt(std::string_view text);
Receipt receipt_but_tensors(std::string_view text, const std::string& source);
Manifest manifest_from_text(std::string_view text, const std::string& source);
Committed committed_from_text(std::string_view text, const std::string& source);
Latest latest_from_text(std::string_view text, const std::string& source);
Unusable unusable_from_text(std::string_view text, const std::string& source);

// Whole-manifest rules: every tensor is covered exactly once by its chunks, chunks lie inside their file's data, share
// no byte, are aligned; aliases and derivations point at tensors that exist; a training kind has every state class, and
// a class that is said to be in meta/ names a listed file. Throws Error{checkpoint}.
void check_manifest(const Manifest& manifest, const std::string& source);
// Of these rules those that a manifest with the tensors of another one, which passed, and with files of the same names
// and sizes, can still break.
void check_manifest_but_tensors(const Manifest& manifest, const std::string& source);

std::string file_root_of(const std::vector<std::string>& block_xxh128);
std::string folder_name_of(int64_t step);                      // "step-00001200"
std::optional<int64_t> step_of_folder(std::string_view name);  // the reverse; empty for other names

// Names inside a checkpoint folder.
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kCommittedName = "COMMITTED";
inline constexpr std::string_view kUnusableName = "UNUSABLE";
inline constexpr std::string_view kLatestName = "LATEST";
std::string receipt_path(int64_t rank);  // "receipts/rank-00003.json"

}  // namespace trainctl
