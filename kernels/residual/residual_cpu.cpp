// kernels/residual/residual_cpu.cpp -- residual add, and dropout with many Philox counters at once.
#include "kernels/residual/residual_cpu.h"

#include "kernels/common/chunks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

constexpr int kCounters = 64;  // Philox blocks computed together: 256 words

struct Words {
  uint32_t w[kCounters * 4];
};

// Blocks first_block, first_block + 1, ... of Philox4x32-10 with counter high = site. Plain loops over counters: each
// round is the same arithmetic on all of them, which the compiler turns into vectors.
void philox_blocks(uint64_t key, uint64_t site, uint64_t first_block, Words& out) {
  uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  for (int i = 0; i < kCounters; ++i) {
    const uint64_t block = first_block + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = static_cast<uint32_t>(site);
    c3[i] = static_cast<uint32_t>(site >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < kCounters; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i], p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kCounters; ++i) {
    out.w[4 * i] = c0[i];
    out.w[4 * i + 1] = c1[i];
    out.w[4 * i + 2] = c2[i];
    out.w[4 * i + 3] = c3[i];
  }
}

template <class T>
void add_all(const AddCpu& k) {
  const T* a = static_cast<const T*>(k.a);
  const T* b = static_cast<const T*>(k.b);
  T* y = static_cast<T*>(k.y);
  over_chunks(k.n, [=](int64_t i, auto part) { store(y + i, load(a + i, part) + load(b + i, part), part); });
}

template <class T>
void drop(const DropoutCpu& k) {
#pragma omp parallel for schedule(static) if (k.rows * k.channels > kSerialWork / 4)
  for (int64_t r = 0; r < k.rows; ++r) {
    const T* x = static_cast<const T*>(k.x) + r * k.channels;
    T* y = static_cast<T*>(k.y) + r * k.channels;
    const uint64_t token = static_cast<uint64_t>(k.token_begin + (r / k.run) * k.jump + r % k.run);
    const uint64_t first = token * static_cast<uint64_t>(k.channels);
    Words words;
    int64_t c = 0;
    while (c < k.channels) {
      const uint64_t element = first + static_cast<uint64_t>(c);
      philox_blocks(k.key, k.site, element / 4, words);
      const int64_t skip = static_cast<int64_t>(element % 4);
      const int64_t count = least(k.channels - c, kCounters * 4 - skip);
      const uint32_t* w = words.w + skip;
      sweep(count, [&](int64_t i, auto part) {
        vu word{};
        __builtin_memcpy(&word, w + i, static_cast<uint64_t>(part.count) * 4);
        const vf v = load(x + c + i, part) * k.scale;
        // threshold 2^32 keeps nothing; below it the comparison is one of 32-bit words.
        const vu bound = vu{} + static_cast<uint32_t>(k.threshold);
        store(y + c + i, k.threshold >> 32 ? vf{} : (word >= bound ? v : vf{}), part);
      });
      c += count;
    }
  }
}

}  // namespace

void add(const AddCpu& k) {
  with_storage(k.bf16, [&]<class T>() { add_all<T>(k); });
}
void dropout(const DropoutCpu& k) {
  with_storage(k.bf16, [&]<class T>() { drop<T>(k); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
