// lib/checkpoint/non_finite.cpp -- one pass over the bits, in lanes that a compiler can keep in vector registers.
#include "checkpoint/non_finite.h"

#include <cstring>

namespace trainctl {
namespace {

template <class Word>
int64_t count_masked(const char* data, int64_t bytes, Word mask) {
  constexpr int64_t kChunk = 1024;  // few enough that a lane's own counter cannot overflow
  const int64_t words = bytes / static_cast<int64_t>(sizeof(Word));
  int64_t total = 0;
  for (int64_t begin = 0; begin < words; begin += kChunk) {
    const int64_t end = begin + kChunk < words ? begin + kChunk : words;
    Word count = 0;
    for (int64_t i = begin; i < end; ++i) {
      Word word = 0;
      std::memcpy(&word, data + i * static_cast<int64_t>(sizeof(Word)), sizeof word);
      count = static_cast<Word>(count + static_cast<Word>((word & mask) == mask));
    }
    total += static_cast<int64_t>(count);
  }
  return total;
}

}  // namespace

int64_t count_non_finite(const char* data, int64_t bytes, std::string_view dtype) {
  if (dtype == "F32") return count_masked<uint32_t>(data, bytes, 0x7f800000u);
  if (dtype == "BF16") return count_masked<uint16_t>(data, bytes, uint16_t{0x7f80});
  if (dtype == "F64") return count_masked<uint64_t>(data, bytes, 0x7ff0000000000000ull);
  return 0;
}

}  // namespace trainctl
