// tests/unit/checkpoint/safetensors_test.cpp -- the container: round trips, and every kind of broken header refused.
#include "checkpoint/safetensors.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "fixture.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

std::string framed(const std::string& json, const std::string& data, int64_t claimed = -1) {
  const auto length = static_cast<uint64_t>(claimed < 0 ? static_cast<int64_t>(json.size()) : claimed);
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(static_cast<unsigned char>(length >> (8 * i))));
  return out + json + data;
}

// "" when accepted, else the message.
std::string refusal(const std::filesystem::path& path, const std::string& bytes) {
  put_bytes(path, bytes);
  try {
    SafetensorsReader reader(path);
    return "";
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::checkpoint);
    CHECK(std::string(e.what()).find(path.filename().string()) != std::string::npos);
    return e.what();
  }
}

}  // namespace

TEST_CASE("what the safetensors writer writes reads back equal, with the data on a 4096 boundary", "[checkpoint]") {
  ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "a.safetensors";
  std::vector<SafetensorsTensor> tensors = {{"w", "F32", {2, 3}, 0, 0},
                                            {"empty", "F64", {0, 5}, 0, 0},
                                            {"scalar", "I64", {}, 0, 0},
                                            {"quote\"\\\xC3\xA9", "BF16", {3}, 0, 0},
                                            {"b", "U8", {5}, 0, 0}};
  std::string data;
  for (int i = 0; i < 24 + 8 + 6 + 5; ++i) data.push_back(static_cast<char>(i * 7));
  SafetensorsWriter writer(path, tensors, {{"format", "test"}, {"note", "line\nbreak"}});
  writer.append(data.data(), 10);  // pieces need not be tensors
  writer.append(data.data() + 10, static_cast<int64_t>(data.size()) - 10);
  writer.finish();

  const SafetensorsReader reader(path);
  CHECK(reader.header().header_bytes % 4096 == 0);
  CHECK(reader.header().metadata.at("note") == "line\nbreak");
  CHECK(static_cast<int64_t>(file_bytes(path).size()) ==
        reader.header().header_bytes + static_cast<int64_t>(data.size()));
  std::string back;
  for (const SafetensorsTensor& expected : tensors) {
    const SafetensorsTensor* t = reader.header().find(expected.name);
    REQUIRE(t);
    CHECK(t->shape == expected.shape);
    CHECK(t->dtype == expected.dtype);
    std::string piece(static_cast<size_t>(t->bytes()), '\0');
    reader.read(*t, piece.data(), t->bytes());
    back += piece;
  }
  CHECK(back == data);
}

TEST_CASE("a file made by the public layout rules is read, F16 included", "[checkpoint]") {
  ScratchFolder folder;
  const std::string json = R"({"__metadata__":{"format":"pt"},"h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )";
  CHECK(refusal(folder.path() / "x.safetensors", framed(json, "12345678")) == "");
  const SafetensorsHeader header = read_safetensors_header(folder.path() / "x.safetensors");
  CHECK(header.tensors[0].name == "b");
  CHECK_FALSE(dtype_of_safetensors("F16").has_value());
  for (const auto& file : files_below("tests/golden/hf"))
    if (file.extension() == ".safetensors") CHECK(read_safetensors_header(file).tensors.size() > 3);
}

TEST_CASE("every kind of broken safetensors file is refused with file, tensor, expected and actual", "[checkpoint]") {
  ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "x.safetensors";
  const auto one = [](const std::string& entry) { return "{\"w\":" + entry + "}"; };
  const std::string good = one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})");
  CHECK(refusal(path, framed(good, "12345678")) == "");
  const auto refused = [&](const std::string& bytes, const std::string& needle) {
    CAPTURE(needle);
    const std::string text = refusal(path, bytes);
    CAPTURE(text);
    CHECK(text.find(needle) != std::string::npos);
  };
  refused("", "at least 8");
  refused("1234567", "at least 8");
  refused(framed(good, "12345678", int64_t{1} << 60), "above the limit");
  refused(framed(good, "12345678", 100'000'001), "above the limit");
  refused(framed(good, "12345678", 5000), "passes the end");
  refused(framed(good, "1234567"), "truncated");
  refused(framed(good, "123456789"), "the file has 9 bytes");
  refused(framed("[]", ""), "no JSON object");
  refused(framed("{", ""), "never closed");
  refused(framed(good + "x", "12345678"), "after the end");
  refused(framed(one("3"), ""), "object is needed");
  refused(framed(one(R"({"dtype":"F32","shape":[2]})"), "12345678"), "data_offsets is missing");
  refused(framed(one(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})"), "12345678"), "\"F31\" is not known");
  refused(framed(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), "12345678"), "hold 8 bytes");
  refused(framed(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "12345678"), ">= 0");
  refused(framed(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), "12345678"), "integer");
  refused(framed(one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})"), "12345678"),
          "64 bits");
  refused(framed(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), "12345678"), "[8, 0]");
  refused(framed(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,9]})"), "12345678"), "two numbers");
  refused(framed(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],)"
                 R"("data_offsets":[1,2]}})",
                 "12"),
          "duplicate key");
  refused(framed(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],)"
                 R"("data_offsets":[1,3]}})",
                 "123"),
          "overlap");
  refused(framed(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],)"
                 R"("data_offsets":[2,3]}})",
                 "123"),
          "no tensor owns");
  refused(framed(R"({"__metadata__":{"a":1}})", ""), "metadata are strings");
  std::string deep = R"({"w":)";
  for (int i = 0; i < 100000; ++i) deep += '[';
  refused(framed(deep, ""), "nested deeper");
}

TEST_CASE("a header over 1 MiB works", "[checkpoint]") {
  ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "many.safetensors";
  std::vector<SafetensorsTensor> tensors;
  for (int i = 0; i < 12000; ++i)
    tensors.push_back({fmt::format("layers.{:06}.some.rather.long.name.of.a.weight", i), "U8", {1}, 0, 0});
  SafetensorsWriter writer(path, tensors, {});
  const std::string data(tensors.size(), 'x');
  writer.append(data.data(), static_cast<int64_t>(data.size()));
  writer.finish();
  const SafetensorsHeader header = read_safetensors_header(path);
  CHECK(header.header_bytes > (1 << 20));
  CHECK(header.tensors.size() == tensors.size());
}

TEST_CASE("Python's safetensors opens every shard with equal bytes", "[checkpoint][interop]") {
  if (std::system("python3 -c 'import safetensors' 2>/dev/null") != 0) {
    WARN("skipped: python3 has no safetensors package (pip install safetensors)");
    return;
  }
  ScratchFolder folder;
  save_once(folder.path(), 2, 3, 8);
  const std::filesystem::path script = folder.path() / "check.py";
  put_bytes(script, R"(
import json, struct, sys
from safetensors import deserialize
for path in sys.argv[1:]:
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    assert (8 + n) % 4096 == 0
    header = json.loads(raw[8:8 + n])
    header.pop("__metadata__")
    seen = dict(deserialize(raw))
    assert seen.keys() == header.keys(), (seen.keys(), header.keys())
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert bytes(seen[name]["data"]) == raw[8 + n + begin:8 + n + end], name
        assert list(seen[name]["shape"]) == entry["shape"] and seen[name]["dtype"] == entry["dtype"], name
)");
  std::string command = "python3 " + script.string();
  int shards = 0;
  for (const auto& file : files_below(folder.path()))
    if (file.extension() == ".safetensors") command += " " + file.string(), ++shards;
  CHECK(shards == 4);
  CHECK(std::system(command.c_str()) == 0);
}

}  // namespace trainctl::testing
