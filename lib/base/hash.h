// lib/base/hash.h -- digests: XXH3-128 for content (fast), SHA-256 for what binds a checkpoint together.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainctl {

std::string xxh128_hex(const void* data, size_t bytes);  // 32 lower-case hex digits, canonical byte order
std::string sha256_hex(std::string_view data);           // 64 lower-case hex digits
std::string random_hex(int digits);                      // from the kernel's random source

}  // namespace trainctl
