// lib/interop/portable_writer.cpp -- the protocol's steps S3 to S10 for one writer that holds no more than a block.
#include "interop/portable_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/meta_files.h"
#include "checkpoint/retention.h"
#include "checkpoint/save_job.h"
#include "interop/checkpoint_model.h"

namespace trainctl {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDataFile = "data/model-r00000.safetensors";

bool is_interrupted_import(const fs::path& folder) {
  if (inspect_folder(folder).state != CheckpointState::incomplete) return false;
  try {
    return read_manifest(folder).kind == "portable";
  } catch (const Error&) {
    return false;
  }
}

const fs::path& check_target(const fs::path& output) {
  check_output_place(fs::weakly_canonical(fs::absolute(output)));
  if (const auto step = step_of_folder(output.filename().string()); step && *step != 0)
    fail(ErrorKind::usage, fmt::format("--output {}: imported weights are of step 0, and a folder of that name would "
                                       "be taken for step {}; name it otherwise",
                                       output.string(), *step));
  const fs::file_status status = fs::symlink_status(output);  // throws when it cannot be told
  if (status.type() == fs::file_type::not_found) return output;
  if (status.type() != fs::file_type::directory)
    fail(ErrorKind::usage, fmt::format("--output {} exists and is not a folder; name another", output.string()));
  if (!fs::is_empty(output) && !is_interrupted_import(output))
    fail(ErrorKind::usage,
         fmt::format("--output {} is not empty; it is left alone. Name a new or an empty folder", output.string()));
  return output;
}

// Only what is derived from the weights is here; the table names the other classes as absent.
std::vector<StateClass> portable_completeness() {
  std::vector<StateClass> table;
  for (const char* name : {"weights", "optimizer", "scheduler", "loss_scaler", "rng", "sampler", "packing",
                           "consumed_tokens", "topology", "sharding", "versions", "low_precision_scaling"})
    table.push_back({name, "absent", ""});
  const auto set = [&table](std::string_view name, std::string state, std::string where) {
    for (StateClass& c : table)
      if (c.name == name) c = {c.name, std::move(state), std::move(where)};
  };
  set("weights", "present", "tensors with role weight");
  set("sharding", "present", "the boxes of tensors[].chunks: whole tensors");
  set("versions", "present", "provenance");
  set("low_precision_scaling", "derived", "not used in f32 and bf16");
  return table;
}

SafetensorsTensor header_entry(const PortableTensor& t) {
  SafetensorsTensor entry;
  std::string zeros;
  for (int d = 0; d < t.shape.rank(); ++d) {
    entry.shape.push_back(t.shape[d]);
    zeros += d == 0 ? "0" : ",0";
  }
  entry.name = fmt::format("{}|weight|{}", t.name, zeros);
  entry.dtype = safetensors_dtype(t.dtype);
  return entry;
}

}  // namespace

PortableWriter::PortableWriter(const fs::path& output, const std::vector<PortableTensor>& tensors,
                               PortableOptions options)
    : output_(output_folder(output, "--output")),
      options_(std::move(options)),
      folder_(check_target(output_), "import"),
      attempt_(random_hex(32)),
      file_([this] {
        make_directories(folder_.path() / "data");
        make_directories(folder_.path() / "receipts");
        return FileHandle::create_exclusive(folder_.path() / kDataFile);
      }()) {
  std::vector<SafetensorsTensor> header;
  for (const PortableTensor& t : tensors) header.push_back(header_entry(t));
  const std::string text = encode_safetensors_header(
      header, {{"format", "trainctl"}, {"run", options_.run_id}, {"attempt", attempt_}, {"step", "0"}, {"rank", "0"}});
  FileRecord file;
  file.path = kDataFile;
  file.header_bytes = static_cast<int64_t>(text.size());
  file.bytes = file.header_bytes + (header.empty() ? 0 : header.back().end);
  file_.reserve(file.bytes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorRecord record;
    record.name = tensors[i].name;
    record.role = "weight";
    record.dtype = tensors[i].dtype;
    record.shape = tensors[i].shape;
    record.chunks.push_back(
        {whole(record.shape), file.path, header[i].name, file.header_bytes + header[i].begin, header[i].bytes()});
    receipt_.tensors.push_back(std::move(record));
  }
  std::sort(receipt_.tensors.begin(), receipt_.tensors.end(),
            [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
  receipt_.attempt = attempt_;
  receipt_.ok = true;
  receipt_.files.push_back(std::move(file));
  block_.reserve(static_cast<size_t>(kBlockBytes));
  append(text.data(), static_cast<int64_t>(text.size()));
}

void PortableWriter::meta(const std::string& name, std::string_view content) {
  ensure(is_safe_relative_path(name) && static_cast<int64_t>(content.size()) <= kMaxMetaFileBytes, "an odd meta file");
  make_directories(folder_.path() / "meta");
  write_file_atomically(folder_.path() / "meta" / name, content);
  meta_.push_back({"meta/" + name, static_cast<int64_t>(content.size()), xxh128_hex(content.data(), content.size())});
}

void PortableWriter::append(const void* data, int64_t bytes) {
  ensure(bytes >= 0 && bytes <= receipt_.files[0].bytes - at_ - static_cast<int64_t>(block_.size()),
         "more bytes than the tensors of a portable checkpoint hold");
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const int64_t count = std::min(bytes, kBlockBytes - static_cast<int64_t>(block_.size()));
    block_.insert(block_.end(), from, from + count);
    from += count;
    bytes -= count;
    if (static_cast<int64_t>(block_.size()) == kBlockBytes) flush_block();
  }
}

void PortableWriter::flush_block() {
  if (block_.empty()) return;
  receipt_.files[0].block_xxh128.push_back(xxh128_hex(block_.data(), block_.size()));
  file_.write_at(block_.data(), static_cast<int64_t>(block_.size()), at_);
  at_ += static_cast<int64_t>(block_.size());
  block_.clear();
}

std::string PortableWriter::manifest_text() const {
  const std::string receipt = to_text(receipt_);
  Manifest m;
  m.kind = "portable";
  m.run_id = options_.run_id;
  m.attempt = attempt_;
  m.reason = options_.reason;
  m.world = 1;
  m.created_ns = wall_clock_ns();
  m.provenance = options_.provenance;
  m.meta = meta_;
  m.tensors = receipt_.tensors;
  m.files = receipt_.files;
  m.completeness = portable_completeness();
  m.receipts = {{receipt_path(0), 0, static_cast<int64_t>(receipt.size()), xxh128_hex(receipt.data(), receipt.size())}};
  check_manifest(m, "the new manifest");
  return to_text(m);
}

CheckpointInfo PortableWriter::commit(const Progress& progress) {
  flush_block();
  FileRecord& file = receipt_.files[0];
  ensure(at_ == file.bytes, "a portable checkpoint was finished before all its bytes were given");
  file.file_root = file_root_of(file.block_xxh128);
  file_.sync_data();
  if (file_.size() != file.bytes)
    fail(ErrorKind::environment,
         fmt::format("{} has {} bytes after writing {}", file_.path().string(), file_.size(), file.bytes));
  file_.close();
  sync_directory(folder_.path() / "data");
  write_file_atomically(folder_.path() / receipt_path(0), to_text(receipt_));
  const std::string text = manifest_text();
  write_file_atomically(folder_.path() / kManifestName, text);

  check_target(output_);  // again: writing took a while
  if (fs::exists(output_) && names_in(output_).empty())
    fs::remove(output_);
  else if (fs::exists(output_))
    move_to_trash(output_);
  folder_.seal();
  rename_to_new_name(folder_.path(), output_);
  folder_.moved();
  sync_directory(output_.parent_path());
  write_file_atomically(output_ / kCommittedName, to_text(Committed{0, attempt_, "portable", sha256_hex(text),
                                                                    static_cast<int64_t>(text.size()), 1, file.bytes}));

  const VerifyReport report = verify_checkpoint(output_, /*full=*/true, progress);
  if (!report.whole()) {
    mark_unusable(output_, "what was written does not read back: " + report.faults.front(), "import", "");
    fail(ErrorKind::environment, fmt::format("{} does not read back as it was written, and is marked unusable: {}",
                                             output_.string(), report.faults.front()));
  }
  return report.info;
}

}  // namespace trainctl
