// lib/checkpoint/format_read.cpp -- canonical JSON to checkpoint records, with every bound checked.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/format.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/posix_io.h"
#include "checkpoint/record_text.h"
#include "checkpoint/tensor_text.h"

namespace trainctl {
namespace {

Shape shape_of(const JsonFields& fields, std::string_view key) {
  const std::vector<int64_t> dims = fields.integers(key);
  if (dims.size() > static_cast<size_t>(kMaxDims))
    fields.refuse(key, fmt::format("has {} dimensions, at most {} are legal", dims.size(), kMaxDims));
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  if (!checked_volume(shape)) fields.refuse(key, "has more elements than 64 bits can count");
  return shape;
}

std::string path_of(const JsonFields& fields, std::string_view key) {
  const std::string& path = fields.text(key);
  if (!is_safe_relative_path(path))
    fields.refuse(key, fmt::format("= {} is no plain relative path (no \"..\", no leading \"/\")", in_quotes(path)));
  return path;
}

FileRecord file_of(const JsonFields& fields) {
  FileRecord file;
  file.path = path_of(fields, "path");
  file.rank = fields.integer("rank");
  file.bytes = fields.integer("bytes", 8);
  file.header_bytes = fields.integer("header_bytes", 8, file.bytes);
  if (fields.integer("block") != kBlockBytes)
    fields.refuse("block", fmt::format("= {}: only blocks of {} bytes are read", fields.integer("block"), kBlockBytes));
  file.block_xxh128 = fields.hexes("block_xxh128", 32);
  const int64_t blocks = file.bytes / kBlockBytes + (file.bytes % kBlockBytes != 0);
  if (static_cast<int64_t>(file.block_xxh128.size()) != blocks)
    fields.refuse("block_xxh128",
                  fmt::format("has {}, a file of {} has {}", counted(std::ssize(file.block_xxh128), "digest"),
                              counted(file.bytes, "byte"), counted(blocks, "block")));
  file.file_root = fields.hex("file_root", 32);
  if (file.file_root != file_root_of(file.block_xxh128))
    fields.refuse("file_root", "is not the digest of the block digests");
  return file;
}

ChunkRecord chunk_of(const JsonFields& fields, DType dtype) {
  ChunkRecord chunk;
  chunk.box.offset = shape_of(fields, "offset");
  chunk.box.extent = shape_of(fields, "extent");
  chunk.file = path_of(fields, "file");
  chunk.key = fields.text("key");
  chunk.byte_offset = fields.integer("byte_offset", 8);
  chunk.byte_length = fields.integer("byte_length");
  int64_t bytes = *checked_volume(chunk.box.extent);
  if (__builtin_mul_overflow(bytes, size_of(dtype), &bytes) || bytes != chunk.byte_length)
    fields.refuse("byte_length", fmt::format("= {} does not agree with the extent {} of {}", chunk.byte_length,
                                             to_string(chunk.box.extent), name(dtype)));
  if (chunk.byte_offset % size_of(dtype) != 0) fields.refuse("byte_offset", "is not aligned to the element size");
  return chunk;
}

TensorRecord tensor_of(const JsonFields& fields) {
  TensorRecord tensor;
  tensor.name = fields.text("name");
  tensor.role = fields.text("role");
  const std::optional<DType> dtype = dtype_of_name(fields.text("dtype"));
  if (!dtype)
    fields.refuse("dtype", fmt::format("= {} is not known; known: f32, bf16, f64, i32, i64, u8",
                                       in_quotes(fields.text("dtype"))));
  tensor.dtype = *dtype;
  tensor.shape = shape_of(fields, "shape");
  if (fields.has("alias_of")) tensor.alias_of = fields.text("alias_of");
  if (fields.has("derived_from")) {
    const JsonFields from = fields.object("derived_from");
    tensor.derived_from_role = from.text("role");
    if (from.text("name") != tensor.name || tensor.derived_from_role.empty())
      from.refuse("name", "must be the tensor's own name, with another role");
    if (from.text("cast") != "nearest_even")
      from.refuse("cast", fmt::format("= {}: only \"nearest_even\" is known", in_quotes(from.text("cast"))));
  }
  const JsonNode::Array& chunks = fields.list("chunks");
  for (size_t i = 0; i < chunks.size(); ++i)
    tensor.chunks.push_back(chunk_of(fields.element("chunks", chunks[i], i), tensor.dtype));
  return tensor;
}

double float_of(const JsonFields& fields, std::string_view key) {
  const std::string& text = fields.text(key);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') fields.refuse(key, fmt::format("= {} is no number", in_quotes(text)));
  return value;
}

template <class T, class Read>
void read_list(const JsonFields& fields, std::string_view key, std::vector<T>& out, Read read) {
  const JsonNode::Array& items = fields.list(key);
  for (size_t i = 0; i < items.size(); ++i) out.push_back(read(fields.element(key, items[i], i)));
}

Receipt receipt_of(const JsonFields& fields) {  // without its tensors
  check_schema(fields, "trainctl-receipt");
  Receipt receipt;
  receipt.attempt = fields.hex("attempt", 32);
  receipt.step = fields.integer("step");
  receipt.rank = fields.integer("rank");
  receipt.ok = fields.text("status") == "ok";
  receipt.reason = fields.text("reason");
  receipt.non_finite = fields.integer("non_finite");
  read_list(fields, "files", receipt.files, file_of);
  return receipt;
}

StateClass class_of(const std::string& name, const JsonFields& fields) {
  StateClass c{name, fields.text("state"), fields.text("where")};
  if (c.state != "present" && c.state != "absent" && c.state != "derived")
    fields.refuse("state", fmt::format("= {}; known: present, absent, derived", in_quotes(c.state)));
  return c;
}

void read_classes(const JsonFields& fields, Manifest& m) {
  const JsonFields classes = fields.object("completeness");
  for (const JsonNode::Member& c : *fields.node("completeness").as<JsonNode::Object>()) {
    const JsonFields one = classes.object(c.key);
    StateClass& known = m.completeness.emplace_back(class_of(c.key, one));
    if (!one.has("parts")) continue;
    const JsonFields parts = one.object("parts");
    for (const JsonNode::Member& p : *one.node("parts").as<JsonNode::Object>())
      known.parts.push_back(class_of(p.key, parts.object(p.key)));
  }
}

}  // namespace

void check_schema(const JsonFields& fields, std::string_view expected) {
  const JsonFields schema = fields.object("schema");
  if (schema.text("name") != expected)
    schema.refuse("name", fmt::format("= {}, {} is needed", in_quotes(schema.text("name")), in_quotes(expected)));
  if (schema.integer("major") != kSchemaMajor)
    throw OtherVersion(ErrorKind::checkpoint,
                       fmt::format("{} is of version {}: this program reads version {}; use a newer trainctl",
                                   schema.source(), schema.integer("major"), kSchemaMajor));
}

std::string_view tensors_of_receipt(std::string_view text) {
  // The last member. Inside a string its quotes would stand behind backslashes.
  constexpr std::string_view kBegin = R"(,"tensors":)";
  const size_t at = text.find(kBegin);
  if (at == std::string_view::npos || !text.ends_with(kReceiptEnd)) return {};
  return text.substr(at + kBegin.size(), text.size() - kReceiptEnd.size() - at - kBegin.size());
}

Receipt receipt_from_text(std::string_view text, const std::string& source) {
  if (auto tensors = tensors_of_text(tensors_of_receipt(text))) {
    Receipt receipt = receipt_but_tensors(text, source);
    receipt.tensors = std::move(*tensors);
    return receipt;
  }
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  Receipt receipt = receipt_of(fields);
  read_list(fields, "tensors", receipt.tensors, tensor_of);
  check_canonical(to_text(receipt), text, source);
  return receipt;
}

Receipt receipt_but_tensors(std::string_view text, const std::string& source) {
  const std::string_view tensors = tensors_of_receipt(text);
  if (tensors.empty()) return receipt_from_text(text, source);
  const std::string_view head = text.substr(0, static_cast<size_t>(tensors.data() - text.data()));
  const JsonNode root = parse_checkpoint_json(std::string(head) + "[]}", source);
  Receipt receipt = receipt_of(JsonFields(root, source));
  check_receipt_head(receipt_head(receipt, tensors), head, tensors, source);
  return receipt;
}

Manifest manifest_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-checkpoint");
  Manifest m;
  m.kind = fields.text("kind");
  if (m.kind != "training" && m.kind != "inference" && m.kind != "portable" && m.kind != "intermediate")
    fields.refuse("kind", fmt::format("= {}; known: training, inference, portable, intermediate", in_quotes(m.kind)));
  m.run_id = fields.text("run_id");
  m.attempt = fields.hex("attempt", 32);
  m.reason = fields.text("reason");
  m.step = fields.integer("step");
  m.created_ns = fields.integer("created_ns");
  m.world = fields.integer("world", 1, kMostRanks);
  m.parent = fields.text("parent");
  m.topology = fields.node("topology").text();
  m.provenance = fields.node("provenance").text();
  read_classes(fields, m);
  const JsonFields scalars = fields.object("scalars"), data = fields.object("data");
  m.scalars.step = scalars.integer("step");
  m.scalars.last_loss = float_of(scalars, "last_loss");
  m.scalars.last_grad_norm = float_of(scalars, "last_grad_norm");
  m.scalars.non_finite_count = scalars.integer("non_finite_count");
  m.non_finite = scalars.integer("non_finite_elements");
  m.scalars.consumed_samples = data.integer("consumed_samples", -1);  // -1: not known
  m.scalars.consumed_tokens = data.integer("consumed_tokens", -1);
  m.scalars.data_fingerprint = data.text("fingerprint");
  if (data.has("state")) {  // absent before version 1.2
    data.object("state");
    m.scalars.data_state = data.node("state").text();
  }
  m.scalars.seed = fields.object("rng").integer("seed", INT64_MIN);
  read_list(fields, "tensors", m.tensors, tensor_of);
  read_list(fields, "files", m.files, file_of);
  read_list(fields, "receipts", m.receipts, [](const JsonFields& r) {
    return ReceiptRecord{path_of(r, "path"), r.integer("rank"), r.integer("bytes"), r.hex("xxh128", 32)};
  });
  if (fields.has("meta"))  // absent in version 1.0
    read_list(fields, "meta", m.meta, [](const JsonFields& r) {
      return MetaRecord{path_of(r, "path"), r.integer("bytes"), r.hex("xxh128", 32)};
    });
  check_manifest(m, source);
  return m;
}

Committed committed_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-committed");
  Committed c;
  c.step = fields.integer("step");
  c.attempt = fields.hex("attempt", 32);
  c.kind = fields.text("kind");
  c.manifest_sha256 = fields.hex("manifest_sha256", 64);
  c.manifest_bytes = fields.integer("manifest_bytes", 2, kMaxRecordBytes);
  c.files = fields.integer("files");
  c.bytes = fields.integer("bytes");
  check_canonical(to_text(c), text, source);
  return c;
}

Latest latest_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-latest");
  Latest l{fields.integer("step"), path_of(fields, "folder"), fields.hex("manifest_sha256", 64)};
  check_canonical(to_text(l), text, source);
  return l;
}

Unusable unusable_from_text(std::string_view text, const std::string& source) {
  const JsonNode root = parse_checkpoint_json(text, source);
  const JsonFields fields(root, source);
  check_schema(fields, "trainctl-unusable");
  Unusable u{fields.text("reason"), fields.text("detector"), fields.text("evidence"), fields.integer("time_ns")};
  check_canonical(to_text(u), text, source);
  return u;
}

std::optional<int64_t> step_of_folder(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  const std::string_view digits = name.substr(5);
  int64_t step = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (read.ec != std::errc() || step < 0 || folder_name_of(step) != name) return std::nullopt;
  return step;
}

}  // namespace trainctl
