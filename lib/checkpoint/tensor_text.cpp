// lib/checkpoint/tensor_text.cpp -- the list of tensors of a record, to text and back.
#include "checkpoint/tensor_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/boxes.h"
#include "checkpoint/posix_io.h"

namespace trainctl {
namespace {

// Stands in JSON for itself.
bool is_plain(char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; }

// Tensors and their chunks are most of a record: they become text without a tree of nodes in between, with the members
// in the order and the form that dump() gives everything else.
class TensorText {
 public:
  explicit TensorText(const std::vector<TensorRecord>& tensors) {
    text_.reserve(256 * tensors.size());
    text_ += '[';
    for (const TensorRecord& t : tensors) put(t);
    end_list();
  }
  std::string take() { return std::move(text_); }

 private:
  void put(const TensorRecord& t) {
    text_ += '{';
    if (!t.alias_of.empty()) member("alias_of", t.alias_of);
    text_ += R"("chunks":[)";
    for (const ChunkRecord& c : t.chunks) put(c);
    end_list();
    text_ += ',';
    if (!t.derived_from_role.empty()) {
      text_ += R"("derived_from":{"cast":"nearest_even",)";
      member("name", t.name);
      member("role", t.derived_from_role);
      text_.back() = '}';
      text_ += ',';
    }
    member("dtype", name(t.dtype));
    member("name", t.name);
    member("role", t.role);
    member("shape", t.shape);
    text_.back() = '}';
    text_ += ',';
  }

  void put(const ChunkRecord& c) {
    text_ += '{';
    member("byte_length", c.byte_length);
    member("byte_offset", c.byte_offset);
    member("extent", c.box.extent);
    member("file", c.file);
    member("key", c.key);
    member("offset", c.box.offset);
    text_.back() = '}';
    text_ += ',';
  }

  void member(std::string_view key, std::string_view value) {
    begin(key);
    if (std::all_of(value.begin(), value.end(), is_plain)) {
      text_ += '"';
      text_ += value;
      text_ += '"';
    } else {
      text_ += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    text_ += ',';
  }
  void member(std::string_view key, int64_t value) {
    begin(key);
    number(value);
    text_ += ',';
  }
  void member(std::string_view key, const Shape& shape) {
    begin(key);
    text_ += '[';
    for (int d = 0; d < shape.rank(); ++d) {
      number(shape[d]);
      text_ += ',';
    }
    end_list();
    text_ += ',';
  }
  void begin(std::string_view key) {
    text_ += '"';
    text_ += key;
    text_ += "\":";
  }
  void number(int64_t value) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
  void end_list() {  // in place of the comma after the last element
    if (text_.back() == ',')
      text_.back() = ']';
    else
      text_ += ']';
  }

  std::string text_;
};

// Reads what TensorText writes, and nothing else.
class TensorTextReader {
 public:
  explicit TensorTextReader(std::string_view text) : rest_(text) {}

  std::optional<std::vector<TensorRecord>> read() {
    std::vector<TensorRecord> tensors;
    const bool read = list([&] { return tensor(tensors.emplace_back()); });
    if (!read || !rest_.empty()) return std::nullopt;
    return tensors;
  }

 private:
  bool tensor(TensorRecord& t) {
    std::string dtype;
    if (!take("{")) return false;
    if (take(R"("alias_of":)") && !(word(t.alias_of) && !t.alias_of.empty() && take(","))) return false;
    if (!take(R"("chunks":)") || !list([&] { return chunk(t.chunks.emplace_back()); }) || !take(",")) return false;
    std::string_view derived_name;
    if (take(R"("derived_from":{"cast":"nearest_even","name":)") &&
        !(view(derived_name) && take(R"(,"role":)") && word(t.derived_from_role) && !t.derived_from_role.empty() &&
          take("},")))
      return false;
    if (!(take(R"("dtype":)") && word(dtype) && take(R"(,"name":)") && word(t.name) && take(R"(,"role":)") &&
          word(t.role) && take(R"(,"shape":)") && shape(t.shape) && take("}")))
      return false;
    if (!t.derived_from_role.empty() && derived_name != t.name) return false;
    const std::optional<DType> known = dtype_of_name(dtype);
    if (!known) return false;
    t.dtype = *known;
    return std::all_of(t.chunks.begin(), t.chunks.end(), [&](const ChunkRecord& c) { return chunk_fits(c, t.dtype); });
  }

  bool chunk(ChunkRecord& c) {
    return take(R"({"byte_length":)") && number(c.byte_length) && take(R"(,"byte_offset":)") && number(c.byte_offset) &&
           take(R"(,"extent":)") && shape(c.box.extent) && take(R"(,"file":)") && word(c.file) && take(R"(,"key":)") &&
           word(c.key) && take(R"(,"offset":)") && shape(c.box.offset) && take("}");
  }

  static bool chunk_fits(const ChunkRecord& c, DType dtype) {
    int64_t bytes = *checked_volume(c.box.extent);
    return !__builtin_mul_overflow(bytes, size_of(dtype), &bytes) && bytes == c.byte_length && c.byte_offset >= 8 &&
           c.byte_offset % size_of(dtype) == 0 && is_safe_relative_path(c.file);
  }

  template <class Item>
  bool list(const Item& item) {
    if (!take("[")) return false;
    if (take("]")) return true;
    do {
      if (!item()) return false;
    } while (take(","));
    return take("]");
  }

  bool shape(Shape& s) {
    return list([&] {
             int64_t size = 0;
             if (s.rank() == kMaxDims || !number(size)) return false;
             s.push_back(size);
             return true;
           }) &&
           checked_volume(s).has_value();
  }

  bool number(int64_t& value) {
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const auto digits = static_cast<size_t>(end.ptr - rest_.data());
    if (end.ec != std::errc() || rest_.front() == '-' || (rest_.front() == '0' && digits > 1)) return false;
    rest_.remove_prefix(digits);
    return true;
  }

  bool word(std::string& value) {
    std::string_view text;
    if (!view(text)) return false;
    value = text;
    return true;
  }
  bool view(std::string_view& value) {
    if (!take("\"")) return false;
    const size_t end = rest_.find('"');
    if (end == std::string_view::npos) return false;
    value = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return std::all_of(value.begin(), value.end(), is_plain);
  }

  bool take(std::string_view literal) {
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::string tensors_text(const std::vector<TensorRecord>& tensors) { return TensorText(tensors).take(); }

std::optional<std::vector<TensorRecord>> tensors_of_text(std::string_view text) {
  return TensorTextReader(text).read();
}

std::optional<DType> dtype_of_name(std::string_view text) {
  for (const DType d : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    if (name(d) == text) return d;
  return std::nullopt;
}

}  // namespace trainctl
