// tests/unit/checkpoint/record_text_test.cpp -- receipts and manifests are canonical JSON, whatever their names hold.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/format.h"
#include "checkpoint/tensor_text.h"
#include "support/catch.h"

namespace trainctl::testing {
namespace {

using nlohmann::json;

// Names with everything that JSON escapes, and what looks like a member of the record itself.
const std::vector<std::string> kNames = {"plain",
                                         R"(a "quoted" \ name)",
                                         "tab\tnewline\nbell\a del\x7f",
                                         "größe 数 \xF0\x9F\x8C\x8D",
                                         R"(","tensors":[],"x":")",
                                         ""};

std::vector<TensorRecord> odd_tensors() {
  std::vector<TensorRecord> tensors;
  for (const std::string& name : kNames)
    for (const DType dtype : {DType::f32, DType::bf16, DType::u8}) {
      TensorRecord t;
      t.name = name;
      t.role = fmt::format("{} of {}", trainctl::name(dtype), name);
      t.dtype = dtype;
      for (int64_t d = 0; d < std::ssize(tensors) % 5; ++d) t.shape.push_back(d + (int64_t{1} << (12 * d)));
      if (dtype == DType::bf16) t.alias_of = name + "'s other";
      if (dtype == DType::u8) t.derived_from_role = name;
      for (int64_t c = 0; c < std::ssize(tensors) % 3; ++c)
        t.chunks.push_back({{t.shape, t.shape}, "data/" + name, name + "|key", c * 4096, INT64_MAX - c});
      tensors.push_back(std::move(t));
    }
  return tensors;
}

// The text again, from the members that it holds: sorted, without spaces.
std::string again(const std::string& text) { return json::parse(text).dump(-1, ' ', false) + "\n"; }

}  // namespace

TEST_CASE("a receipt's and a manifest's text is the canonical form of what it holds", "[checkpoint]") {
  Receipt receipt;
  receipt.attempt = std::string(32, 'a');
  receipt.reason = kNames[1];
  Manifest manifest;
  manifest.topology = R"({"tensors":[],"world":1})";
  manifest.provenance = R"({"z":{"tensors":[]},"a":[1,{"tensors":[]}]})";
  for (const bool filled : {false, true}) {
    if (filled) receipt.tensors = manifest.tensors = odd_tensors();
    const std::string r = to_text(receipt), m = to_text(manifest);
    CHECK(again(r) == r);
    CHECK(again(m) == m);
    const json tensors = json::parse(m)["tensors"];
    CHECK(json::parse(r)["tensors"] == tensors);
    REQUIRE(tensors.size() == manifest.tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorRecord& t = manifest.tensors[i];
      CHECK(tensors[i]["name"] == t.name);
      CHECK(tensors[i]["role"] == t.role);
      CHECK(tensors[i]["dtype"] == name(t.dtype));
      CHECK(std::ssize(tensors[i]["shape"]) == t.shape.rank());
      CHECK(tensors[i].value("alias_of", "") == t.alias_of);
      CHECK(tensors[i].contains("derived_from") == !t.derived_from_role.empty());
      REQUIRE(tensors[i]["chunks"].size() == t.chunks.size());
      for (size_t c = 0; c < t.chunks.size(); ++c) {
        CHECK(tensors[i]["chunks"][c]["key"] == t.chunks[c].key);
        CHECK(tensors[i]["chunks"][c]["byte_length"] == t.chunks[c].byte_length);
      }
    }
  }
  manifest.tensors[0].name = "not UTF-8: \xFF\xC3";  // a name of a file may be that; JSON may not
  CHECK(json::parse(to_text(manifest))["tensors"][0]["name"] == "not UTF-8: \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("a list of tensors is read back from its own text, and from no text but its own", "[checkpoint]") {
  TensorRecord cut, alias, derived, empty;
  cut.name = "layers.0.q";
  cut.role = "master";
  cut.shape = {6, 8};
  for (const int64_t row : {0, 3})
    cut.chunks.push_back({{{row, 0}, {3, 8}}, "data/model-r00000.safetensors", fmt::format("k|{},0", row), 4096, 96});
  alias = derived = empty = cut;
  alias.name = "head";
  alias.alias_of = "embedding";
  derived.role = "weight";
  derived.dtype = DType::bf16;
  derived.derived_from_role = "master";
  alias.chunks.clear();
  derived.chunks.clear();
  empty.shape = {};
  empty.chunks = {{{{}, {}}, "data/optim-r00007.safetensors", "", 8, 4}};
  for (const std::vector<TensorRecord>& list :
       {std::vector<TensorRecord>{}, {cut}, {alias, derived}, {cut, empty, alias}}) {
    const std::string text = tensors_text(list);
    const auto read = tensors_of_text(text);
    REQUIRE(read);
    CHECK(tensors_text(*read) == text);
    REQUIRE(read->size() == list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      CHECK((*read)[i].name == list[i].name);
      CHECK((*read)[i].shape == list[i].shape);
      CHECK((*read)[i].dtype == list[i].dtype);
      CHECK((*read)[i].alias_of == list[i].alias_of);
      CHECK((*read)[i].derived_from_role == list[i].derived_from_role);
      CHECK((*read)[i].chunks.size() == list[i].chunks.size());
    }
    int64_t other = 0;
    for (size_t i = 0; i < text.size(); ++i) {  // what it takes, it would write in these very bytes
      CHECK_FALSE(tensors_of_text(text.substr(0, i)));
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = text;
        changed[i] = static_cast<char>(byte);
        const auto again = tensors_of_text(changed);
        other += again.has_value() && changed != text;
        if (again && tensors_text(*again) != changed) FAIL("takes " << changed);
      }
      if (const auto longer = tensors_of_text(text.substr(0, i) + "0" + text.substr(i)))
        if (tensors_text(*longer) != text.substr(0, i) + "0" + text.substr(i)) FAIL("takes a zero more at " << i);
    }
    CHECK((list.empty() || other > 0));
    CHECK_FALSE(tensors_of_text(text + " "));
  }
  TensorRecord quoted = cut;
  quoted.name = "a\"b";  // the general reader's
  CHECK_FALSE(tensors_of_text(tensors_text({quoted})));
  for (const char* wrong : {"../x", "/x"}) {
    TensorRecord outside = cut;
    outside.chunks[0].file = wrong;
    CHECK_FALSE(tensors_of_text(tensors_text({outside})));
  }
  TensorRecord unaligned = cut, longer = cut;
  unaligned.chunks[0].byte_offset = 4098;
  longer.chunks[0].byte_length = 100;
  CHECK_FALSE(tensors_of_text(tensors_text({unaligned})));
  CHECK_FALSE(tensors_of_text(tensors_text({longer})));
}

TEST_CASE("a receipt read without its tensors is checked to the last byte", "[checkpoint]") {
  Receipt receipt;
  receipt.attempt = std::string(32, 'a');
  receipt.step = 3;
  receipt.rank = 2;
  receipt.ok = true;
  receipt.non_finite = 5;
  const std::vector<std::string> blocks = {std::string(32, 'b')};
  receipt.files.push_back({"data/model-r00002.safetensors", 2, 4100, 4096, blocks, file_root_of(blocks)});
  TensorRecord tensor;
  tensor.name = R"(x","tensors":[{"name":"y)";
  tensor.role = "weight";
  tensor.shape = {1};
  tensor.chunks.push_back({{{0}, {1}}, receipt.files[0].path, "key", 4096, 4});
  receipt.tensors.push_back(tensor);
  const std::string text = to_text(receipt);
  CHECK(tensors_of_receipt(text) == tensors_text(receipt.tensors));
  const Receipt read = receipt_but_tensors(text, "here");
  CHECK(read.tensors.empty());
  CHECK(receipt_from_text(text, "here").tensors.size() == 1);
  CHECK(read.step == 3);
  CHECK(read.files.size() == 1);
  for (size_t i = 0; i < text.size(); ++i) {
    CAPTURE(i);
    for (const int flip : {1, 0x80}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      CHECK_THROWS_AS(receipt_but_tensors(damaged, "here"), Error);
    }
    CHECK_THROWS_AS(receipt_but_tensors(text.substr(0, i), "here"), Error);
  }
}

}  // namespace trainctl::testing
