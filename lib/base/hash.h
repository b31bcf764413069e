// lib/base/hash.h -- digests: XXH3-128 for content (fast), SHA-256 for what binds a checkpoint together.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainctl {

std::string xxh128_hex(const void* data, size_t bytes);  // 32 lower-case hex digits, canonical byte order

// The same digest of bytes that come piece by piece.
class Xxh128 {
 public:
  Xxh128();
  ~Xxh128();
  void update(const void* data, size_t bytes);
  std::string hex();  // of everything since the last call; then starts anew

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view data);                     // 64 lower-case hex digits
std::string sha256_hex(std::span<const std::string_view> pieces);  // of all of them, one after the other
std::string random_hex(int digits);                                // from the kernel's random source

}  // namespace trainctl
