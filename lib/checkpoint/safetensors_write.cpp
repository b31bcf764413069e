// lib/checkpoint/safetensors_write.cpp -- encoding a safetensors header, and a streaming writer.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/safetensors.h"

namespace trainctl {
namespace {

int64_t bytes_of(const SafetensorsTensor& tensor) {
  const std::optional<DType> dtype = dtype_of_safetensors(tensor.dtype);
  ensure(dtype.has_value(), "this safetensors dtype cannot be written");
  int64_t bytes = size_of(*dtype);
  for (const int64_t dim : tensor.shape) {
    ensure(dim >= 0, "a dimension is negative");
    bytes = checked_mul(bytes, dim);
  }
  return bytes;
}

}  // namespace

std::string encode_safetensors_header(std::vector<SafetensorsTensor>& tensors,
                                      const std::map<std::string, std::string>& metadata, int64_t total_bytes) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    nlohmann::ordered_json& pairs = header["__metadata__"];
    for (const auto& [key, value] : metadata) pairs[key] = value;
  }
  std::string text = header.dump();
  text.pop_back();  // the closing brace; entries are appended one by one (an ordered_json key look-up is linear)
  std::set<std::string_view> names;
  int64_t at = 0;
  for (SafetensorsTensor& t : tensors) {
    ensure(t.name != "__metadata__" && names.insert(t.name).second, "a safetensors tensor name is used twice");
    t.begin = at;
    at = checked_add(at, bytes_of(t));
    t.end = at;
    if (text.size() > 1) text += ',';
    const nlohmann::ordered_json entry = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
    text += nlohmann::json(t.name).dump() + ":" + entry.dump();
  }
  text += '}';
  const int64_t needed = round_up(8 + static_cast<int64_t>(text.size()), kSafetensorsAlignment);
  ensure(needed <= kMaxSafetensorsHeader, "the safetensors header passes 100 MB; use more files");
  text.resize(static_cast<size_t>(std::max(needed, round_up(total_bytes, kSafetensorsAlignment)) - 8), ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(static_cast<unsigned char>(text.size() >> (8 * i)));
  return out + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<SafetensorsTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)), file_(FileHandle::create_exclusive(path)) {
  const std::string header = encode_safetensors_header(tensors_, metadata);
  at_ = static_cast<int64_t>(header.size());
  total_ = at_ + (tensors_.empty() ? 0 : tensors_.back().end);
  file_.reserve(total_);
  digest_.update(header.data(), header.size());
  file_.write_at(header.data(), at_, 0);
}

void SafetensorsWriter::append(const void* data, int64_t bytes) {
  ensure(bytes >= 0 && bytes <= total_ - at_, "more bytes than the safetensors tensors hold");
  digest_.update(data, static_cast<size_t>(bytes));
  file_.write_at(data, bytes, at_);
  at_ += bytes;
}

std::string SafetensorsWriter::finish() {
  ensure(at_ == total_, "a safetensors file was finished before all its bytes were given");
  file_.sync_data();
  if (file_.size() != total_)
    fail(ErrorKind::environment,
         fmt::format("{} has {} bytes, {} were written", file_.path().string(), file_.size(), total_));
  file_.close();
  return digest_.hex();
}

}  // namespace trainctl
