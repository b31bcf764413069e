// lib/checkpoint/safetensors_read.cpp -- reading a safetensors header with every check before any use.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/safetensors.h"

namespace trainctl {
namespace {

struct Spelling {
  std::string_view name;
  int64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<Spelling, 7> kSpellings = {{{"F32", 4, DType::f32},
                                                 {"BF16", 2, DType::bf16},
                                                 {"F64", 8, DType::f64},
                                                 {"I32", 4, DType::i32},
                                                 {"I64", 8, DType::i64},
                                                 {"U8", 1, DType::u8},
                                                 {"F16", 2, std::nullopt}}};

int64_t element_bytes(std::string_view dtype) {
  for (const Spelling& s : kSpellings)
    if (s.name == dtype) return s.bytes;
  return 0;
}

SafetensorsTensor read_entry(const JsonNode::Member& member, const std::string& file, int64_t data_bytes) {
  const std::string label = "tensor " + in_quotes(member.key);
  const JsonFields fields(member.value, file, label);
  SafetensorsTensor tensor;
  tensor.name = member.key;
  tensor.dtype = fields.text("dtype");
  tensor.shape = fields.integers("shape");
  const std::vector<int64_t> offsets = fields.integers("data_offsets");
  if (offsets.size() != 2) fields.refuse("data_offsets", "needs two numbers, begin and end");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end || tensor.end > data_bytes)
    fields.refuse("data_offsets", fmt::format("= [{}, {}] leave the data of {} bytes (is the file truncated?)",
                                              tensor.begin, tensor.end, data_bytes));
  int64_t expected = element_bytes(tensor.dtype);
  if (expected == 0)
    fields.refuse("dtype",
                  fmt::format("= {} is not known; known: F32, BF16, F64, I32, I64, U8, F16", in_quotes(tensor.dtype)));
  const bool empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
  if (empty) expected = 0;
  for (const int64_t dim : tensor.shape)
    if (!empty && __builtin_mul_overflow(expected, dim, &expected))
      fields.refuse("shape", "has more bytes than 64 bits can count");
  if (expected != tensor.bytes())
    fields.refuse("data_offsets", fmt::format("hold {} bytes, dtype and shape need {}", tensor.bytes(), expected));
  return tensor;
}

}  // namespace

std::string safetensors_dtype(DType dtype) {
  for (const Spelling& s : kSpellings)
    if (s.dtype == dtype) return std::string(s.name);
  fail(ErrorKind::internal, "a dtype has no safetensors name");
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const Spelling& s : kSpellings)
    if (s.name == name) return s.dtype;
  return std::nullopt;
}

const SafetensorsTensor* SafetensorsHeader::find(std::string_view name) const {
  for (const SafetensorsTensor& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t file_bytes, const std::string& file) {
  const JsonNode root = parse_checkpoint_json(text, file);
  const JsonNode::Object* members = root.as<JsonNode::Object>();
  if (!members) fail(ErrorKind::checkpoint, fmt::format("{}: the header is no JSON object", file));
  SafetensorsHeader header;
  header.header_bytes = 8 + static_cast<int64_t>(text.size());
  header.data_bytes = file_bytes - header.header_bytes;
  for (const JsonNode::Member& member : *members) {
    if (member.key != "__metadata__") {
      header.tensors.push_back(read_entry(member, file, header.data_bytes));
      continue;
    }
    const JsonNode::Object* pairs = member.value.as<JsonNode::Object>();
    if (!pairs) fail(ErrorKind::checkpoint, fmt::format("{}: __metadata__ is no object", file));
    for (const JsonNode::Member& pair : *pairs) {
      const std::string* value = pair.value.as<std::string>();
      if (!value)
        fail(ErrorKind::checkpoint, fmt::format("{}: __metadata__ {} is of type {}, metadata are strings", file,
                                                in_quotes(pair.key), pair.value.type_name()));
      header.metadata[pair.key] = *value;
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  int64_t at = 0;
  for (const SafetensorsTensor& t : header.tensors) {
    if (t.begin != at)
      fail(ErrorKind::checkpoint,
           fmt::format("{}: tensor {} starts at byte {} of the data, {} expected ({})", file, in_quotes(t.name),
                       t.begin, at, t.begin < at ? "tensors overlap" : "bytes that no tensor owns"));
    at = t.end;
  }
  if (at != header.data_bytes)
    fail(ErrorKind::checkpoint, fmt::format("{}: the tensors end at byte {} of the data, the file has {} bytes of data",
                                            file, at, header.data_bytes));
  return header;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  return SafetensorsReader(path).header();
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(FileHandle::open_for_reading(path)) {
  const int64_t bytes = file_.size();
  if (bytes < 8)
    fail(ErrorKind::checkpoint,
         fmt::format("{} has {} bytes, a safetensors file has at least 8", path.string(), bytes));
  std::array<unsigned char, 8> length{};
  file_.read_at(length.data(), 8, 0);
  uint64_t header_bytes = 0;
  for (size_t i = 8; i-- > 0;) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > static_cast<uint64_t>(kMaxSafetensorsHeader))
    fail(ErrorKind::checkpoint, fmt::format("{}: the header length {} is above the limit of {}", path.string(),
                                            header_bytes, kMaxSafetensorsHeader));
  if (header_bytes > static_cast<uint64_t>(bytes - 8))
    fail(ErrorKind::checkpoint, fmt::format("{}: the header length {} passes the end of the file ({} bytes)",
                                            path.string(), header_bytes, bytes));
  std::string text(header_bytes, '\0');
  file_.read_at(text.data(), static_cast<int64_t>(header_bytes), 8);
  header_ = parse_safetensors_header(text, bytes, path.string());
}

void SafetensorsReader::read(const SafetensorsTensor& tensor, void* to, int64_t bytes, int64_t offset) const {
  ensure(offset >= 0 && bytes >= 0 && offset <= tensor.bytes() - bytes, "a read leaves its safetensors tensor");
  file_.read_at(to, bytes, header_.header_bytes + tensor.begin + offset);
}

}  // namespace trainctl
