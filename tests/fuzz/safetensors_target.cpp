// tests/fuzz/safetensors_target.cpp -- the header of a safetensors file. An input is four bytes, the number of data
// bytes behind it (a hole in the file), and the beginning of the file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "fuzz/target.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::fuzz {
namespace {

std::string with_data_bytes(const std::string& header, int64_t bytes) {
  std::string input;
  for (int shift = 0; shift < 32; shift += 8) input += static_cast<char>(bytes >> shift & 0xff);
  return input + header;
}

void check_laws(const SafetensorsReader& reader, int64_t file_bytes) {
  const SafetensorsHeader& header = reader.header();
  law(header.header_bytes + header.data_bytes == file_bytes, "header and data are the whole file");
  int64_t at = 0;
  for (const SafetensorsTensor& t : header.tensors) {
    law(t.begin == at && t.end >= t.begin && t.end <= header.data_bytes, "tensors lie back to back");
    law(header.find(t.name) != nullptr, "a tensor is found by its name");
    at = t.end;
    std::vector<char> bytes(static_cast<size_t>(std::min<int64_t>(t.bytes(), 4096)));
    reader.read(t, bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  law(at == header.data_bytes, "every byte of the data has a tensor");
}

}  // namespace

bool accepts(std::string_view input) {
  static const testing::ScratchFolder folder;
  static const std::filesystem::path path = folder.path() / "file.safetensors";
  if (input.size() < 4) return false;
  int64_t data_bytes = 0;
  for (size_t i = 4; i-- > 0;) data_bytes = data_bytes << 8 | static_cast<unsigned char>(input[i]);
  const std::string begin(input.substr(4));
  testing::put_bytes(path, begin);
  const int64_t file_bytes = static_cast<int64_t>(begin.size()) + data_bytes;
  if (::truncate(path.c_str(), file_bytes) != 0) return false;
  try {
    check_laws(SafetensorsReader(path), file_bytes);
    return true;
  } catch (const Error& e) {
    law(e.kind() == ErrorKind::checkpoint, "a safetensors file is refused as a checkpoint's fault");
    return false;
  }
}

std::vector<std::string> valid_inputs() {
  std::vector<SafetensorsTensor> tensors = {
      {"a", "F32", {2, 3}, 0, 0}, {"b \"quoted\" \\ and so on", "BF16", {0, 5}, 0, 0}, {"c", "I64", {}, 0, 0}};
  std::vector<std::string> inputs = {with_data_bytes(encode_safetensors_header(tensors, {{"format", "pt"}}), 32)};
  // Without the padding, as other programs write it.
  const std::string text = R"({"x":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})";
  inputs.push_back(with_data_bytes(std::string(1, static_cast<char>(text.size())) + std::string(7, '\0') + text, 7));
  return inputs;
}

}  // namespace trainctl::fuzz
