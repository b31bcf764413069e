// lib/interop/gguf_writer.cpp -- little-endian encoding of the parts in order.
#include "interop/gguf_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/units.h"

namespace trainctl {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as the memory has it");

constexpr int64_t kAlignment = 32;  // the format's default
constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kText = 8, kArray = 9;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

int64_t bytes_of(const GgufTensor& t) {
  const int64_t columns = t.shape[t.shape.rank() - 1];
  return gguf_bytes(t.type, columns == 0 ? 0 : t.shape.numel() / columns, columns);
}

}  // namespace

std::string_view name(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return "F32";
    case GgufType::f16:
      return "F16";
    case GgufType::q8_0:
      return "Q8_0";
    case GgufType::bf16:
      return "BF16";
  }
  return "?";
}

int64_t gguf_bytes(GgufType type, int64_t rows, int64_t columns) {
  if (type == GgufType::q8_0) {
    ensure(columns % kQ8Run == 0, "Q8_0 rows are whole runs");
    return checked_mul(rows, columns / kQ8Run * kQ8Bytes);
  }
  return checked_mul(checked_mul(rows, columns), type == GgufType::f32 ? 4 : 2);
}

void GgufWriter::key(std::string_view key, uint32_t type) {
  ensure(!file_, "a key after the file was opened");
  put_text(keys_, key);
  put(keys_, type);
  ++num_keys_;
}

void GgufWriter::text(std::string_view k, std::string_view value) {
  key(k, kText);
  put_text(keys_, value);
}

void GgufWriter::u32(std::string_view k, uint32_t value) {
  key(k, kU32);
  put(keys_, value);
}

void GgufWriter::f32(std::string_view k, float value) {
  key(k, kF32);
  put(keys_, value);
}

void GgufWriter::flag(std::string_view k, bool value) {
  key(k, kBool);
  put(keys_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufWriter::texts(std::string_view k, const std::vector<std::string>& values) {
  key(k, kArray);
  put(keys_, kText);
  put(keys_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) put_text(keys_, value);
}

void GgufWriter::i32s(std::string_view k, const std::vector<int32_t>& values) {
  key(k, kArray);
  put(keys_, kI32);
  put(keys_, static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) put(keys_, value);
}

void GgufWriter::open(const std::filesystem::path& path, std::vector<GgufTensor> tensors) {
  tensors_ = std::move(tensors);
  std::string head = "GGUF";
  put(head, uint32_t{3});
  put(head, static_cast<uint64_t>(tensors_.size()));
  put(head, num_keys_);
  head += keys_;
  int64_t offset = 0;
  for (const GgufTensor& t : tensors_) {
    put_text(head, t.name);
    put(head, static_cast<uint32_t>(t.shape.rank()));
    for (int d = t.shape.rank(); d-- > 0;) put(head, static_cast<uint64_t>(t.shape[d]));
    put(head, static_cast<uint32_t>(t.type));
    put(head, static_cast<uint64_t>(offset));
    offset = checked_add(offset, round_up(bytes_of(t), kAlignment));
  }
  head.resize(static_cast<size_t>(round_up(static_cast<int64_t>(head.size()), kAlignment)), '\0');
  file_.emplace(FileHandle::create_exclusive(path));
  file_->reserve(checked_add(static_cast<int64_t>(head.size()), offset));
  file_->write_at(head.data(), static_cast<int64_t>(head.size()), 0);
  at_ = static_cast<int64_t>(head.size());
}

void GgufWriter::append(const void* data, int64_t bytes) {
  ensure(next_ < tensors_.size() && bytes <= bytes_of(tensors_[next_]) - given_, "more bytes than a GGUF tensor holds");
  file_->write_at(data, bytes, at_);
  at_ += bytes;
  given_ += bytes;
}

void GgufWriter::end_tensor() {
  ensure(given_ == bytes_of(tensors_.at(next_)), "a GGUF tensor was ended before all its bytes were given");
  const char zeros[kAlignment] = {};
  const int64_t padding = round_up(given_, kAlignment) - given_;
  file_->write_at(zeros, padding, at_);
  at_ += padding;
  given_ = 0;
  ++next_;
}

void GgufWriter::finish() {
  ensure(next_ == tensors_.size(), "a GGUF file was finished before all its tensors were given");
  file_->sync_data();
  if (file_->size() != at_)
    fail(ErrorKind::environment,
         fmt::format("{} has {} bytes, {} were written", file_->path().string(), file_->size(), at_));
  file_->close();
}

}  // namespace trainctl
