// tests/unit/base/hash_test.cpp -- digests against published values.
#include "base/hash.h"

#include <algorithm>
#include <set>

#include "support/catch.h"

using namespace trainctl;

TEST_CASE("SHA-256 gives the values of FIPS 180-4", "[base][hash]") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("XXH3-128 gives the published value of the empty text and separates near texts", "[base][hash]") {
  CHECK(xxh128_hex("", 0) == "99aa06d3014798d86001c324468d497f");
  CHECK(xxh128_hex("abc", 3) != xxh128_hex("abd", 3));
  CHECK(xxh128_hex("abc", 3).size() == 32);
}

TEST_CASE("a digest of pieces is the digest of the whole, and the next one starts anew", "[base][hash]") {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += static_cast<char>(i * 31 % 251);
  Xxh128 digest;
  for (const size_t piece : {size_t{1}, size_t{240}, size_t{4096}, size_t{99'999}, size_t{100'000}}) {
    for (size_t at = 0; at < text.size(); at += piece)
      digest.update(text.data() + at, std::min(piece, text.size() - at));
    CHECK(digest.hex() == xxh128_hex(text.data(), text.size()));
  }
  CHECK(digest.hex() == xxh128_hex("", 0));
}

TEST_CASE("random digits have the length asked for and do not repeat", "[base][hash]") {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_hex(16));
  CHECK(seen.size() == 100);
  CHECK(random_hex(0).empty());
  CHECK(random_hex(7).size() == 7);
  CHECK(random_hex(7).find_first_not_of("0123456789abcdef") == std::string::npos);
}
