// lib/base/hash.cpp -- digests as lower-case hex.
#include "base/hash.h"

#include <openssl/evp.h>
#include <sys/random.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/error.h"

namespace trainctl {
namespace {

std::string to_hex(const unsigned char* bytes, size_t count) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex(2 * count, '0');
  for (size_t i = 0; i < count; ++i) {
    hex[2 * i] = digits[bytes[i] >> 4];
    hex[2 * i + 1] = digits[bytes[i] & 15];
  }
  return hex;
}

std::string canonical_hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return to_hex(canonical.digest, sizeof canonical.digest);
}

}  // namespace

std::string xxh128_hex(const void* data, size_t bytes) { return canonical_hex(XXH3_128bits(data, bytes)); }

struct Xxh128::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { ensure(xxh != nullptr && XXH3_128bits_reset(xxh) == XXH_OK, "no memory for a digest"); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Xxh128::Xxh128() : state_(std::make_unique<State>()) {}
Xxh128::~Xxh128() = default;

void Xxh128::update(const void* data, size_t bytes) { XXH3_128bits_update(state_->xxh, data, bytes); }

std::string Xxh128::hex() {
  const std::string text = canonical_hex(XXH3_128bits_digest(state_->xxh));
  XXH3_128bits_reset(state_->xxh);
  return text;
}

std::string sha256_hex(std::string_view data) { return sha256_hex(std::span(&data, 1)); }

std::string sha256_hex(std::span<const std::string_view> pieces) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool done = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view piece : pieces)
    done = done && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  done = done && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  ensure(done && size == 32, "SHA-256 is not available from the crypto library");
  return to_hex(digest.data(), size);
}

std::string random_hex(int digits) {
  ensure(digits >= 0, "random_hex needs a count >= 0");
  std::vector<unsigned char> bytes(static_cast<size_t>(digits / 2 + 1));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorKind::environment, "the kernel's random source (getrandom) failed");
    have += static_cast<size_t>(got);
  }
  return to_hex(bytes.data(), bytes.size()).substr(0, static_cast<size_t>(digits));
}

}  // namespace trainctl
