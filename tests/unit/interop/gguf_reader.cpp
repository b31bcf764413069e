// tests/unit/interop/gguf_reader.cpp -- see the header.
#include "gguf_reader.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "interop_support.h"

namespace trainctl::testing {
namespace fs = std::filesystem;
using nlohmann::json;
namespace {

class Bytes {
 public:
  explicit Bytes(const std::string& data) : data_(data) {}
  template <class T>
  T take() {
    T value{};
    if (at_ + sizeof value > data_.size()) throw std::runtime_error("the file ends early");
    std::memcpy(&value, data_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    const auto size = take<uint64_t>();
    if (size > data_.size() - at_) throw std::runtime_error("the file ends early");
    at_ += size;
    return data_.substr(at_ - size, size);
  }
  json value(uint32_t type) {
    switch (type) {
      case 4:
        return take<uint32_t>();
      case 5:
        return take<int32_t>();
      case 6:
        return take<float>();
      case 7:
        return take<uint8_t>() != 0;
      case 8:
        return text();
      case 9: {
        const auto element = take<uint32_t>();
        const auto count = take<uint64_t>();
        json list = json::array();
        for (uint64_t i = 0; i < count; ++i) list.push_back(value(element));
        return list;
      }
      default:
        throw std::runtime_error("a key of type " + std::to_string(type));
    }
  }
  size_t at() const { return at_; }

 private:
  const std::string& data_;
  size_t at_ = 0;
};

size_t bytes_of(uint32_t type, size_t elements) {
  return type == kF32 ? 4 * elements : type == kQ8 ? elements / 32 * 34 : 2 * elements;
}

}  // namespace

// Also checks the layout: aligned data, in order, no hole of 32 bytes or more, nothing behind.
GgufFile read_gguf(const fs::path& path) {
  const std::string data = file_bytes(path);
  Bytes in(data);
  if (in.take<uint32_t>() != 0x46554747u || in.take<uint32_t>() != 3) throw std::runtime_error("no GGUF of version 3");
  const auto num_tensors = in.take<uint64_t>(), num_keys = in.take<uint64_t>();
  GgufFile file;
  for (uint64_t i = 0; i < num_keys; ++i) {
    const std::string key = in.text();
    const auto type = in.take<uint32_t>();
    if (!file.keys.emplace(key, in.value(type)).second) throw std::runtime_error(key + " is there twice");
  }
  std::vector<std::string> order;
  for (uint64_t i = 0; i < num_tensors; ++i) {
    order.push_back(in.text());
    GgufFile::Tensor t;
    for (auto n = in.take<uint32_t>(); n > 0; --n) t.dims.push_back(in.take<uint64_t>());
    t.type = in.take<uint32_t>();
    t.offset = in.take<uint64_t>();
    if (!file.tensors.emplace(order.back(), t).second) throw std::runtime_error(order.back() + " is there twice");
  }
  const size_t begin = (in.at() + 31) / 32 * 32;
  size_t expected = 0;
  for (const std::string& name : order) {
    GgufFile::Tensor& t = file.tensors.at(name);
    if (t.offset != expected) throw std::runtime_error(name + " is not where the one before it ends");
    size_t elements = 1;
    for (const uint64_t d : t.dims) elements *= d;
    const size_t bytes = bytes_of(t.type, elements);
    t.bytes = data.substr(begin + expected, bytes);
    expected += (bytes + 31) / 32 * 32;
  }
  if (begin + expected != data.size()) throw std::runtime_error("the file does not end with its tensors");
  return file;
}

float half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>((h & 0x8000) != 0 ? -magnitude : magnitude);
}

std::vector<float> decode(const GgufFile::Tensor& t) {
  std::vector<float> values;
  const auto at = [&]<class T>(size_t offset, T value) {
    std::memcpy(&value, t.bytes.data() + offset, sizeof value);
    return value;
  };
  if (t.type == kF32)
    for (size_t i = 0; i < t.bytes.size(); i += 4) values.push_back(at(i, 0.0f));
  if (t.type == kF16)
    for (size_t i = 0; i < t.bytes.size(); i += 2) values.push_back(half_value(at(i, uint16_t{0})));
  if (t.type == kBf16)
    for (size_t i = 0; i < t.bytes.size(); i += 2)
      values.push_back(std::bit_cast<float>(uint32_t{at(i, uint16_t{0})} << 16));
  if (t.type == kQ8)
    for (size_t run = 0; run < t.bytes.size(); run += 34)
      for (size_t i = 0; i < 32; ++i)
        values.push_back(half_value(at(run, uint16_t{0})) * static_cast<float>(at(run + 2 + i, int8_t{0})));
  return values;
}

}  // namespace trainctl::testing
