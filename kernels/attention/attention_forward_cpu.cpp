// kernels/attention/attention_forward_cpu.cpp -- blocks of queries over threads; each runs over its keys in ascending
// order with a running maximum and sum.
#include "kernels/attention/attention_blocks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

struct Softmax {
  vf maximum[kGroups], sum[kGroups];
};

// Replaces the scores of one key block by exp(score - maximum); the factor that earlier sums must shrink by comes back
// in `shrink`. False when all factors are 1.
template <bool kMasked>
bool absorb(float* scores, int64_t j0, int64_t keys, const Visibility& see, Softmax& state, vf (&shrink)[kGroups]) {
  const float infinity = __builtin_inff();
  bool changed = false;
  for (int g = 0; g < kGroups; ++g) {
    float* column = scores + g * kLanes;
    const int64_t seen = kMasked ? see.covered(j0, keys, g) : keys;
    vf top = state.maximum[g];
    for (int64_t j = 0; j < seen; ++j) {
      vf s = load(column + j * kQueries, Whole{});
      if constexpr (kMasked) {
        s = see.visible(j0 + j, g) ? s : set1(-infinity);
        store(column + j * kQueries, s, Whole{});
      }
      top = max(s, top);
    }
    const vf base = top == set1(-infinity) ? vf{} : top;  // no key seen yet: every weight is exp(-inf) = 0
    shrink[g] = exp_bounded(state.maximum[g] - base);
    state.maximum[g] = top;
    vf sum = state.sum[g] * shrink[g];
    for (int64_t j = 0; j < seen; ++j) {
      const vf p = exp_bounded(load(column + j * kQueries, Whole{}) - base);
      store(column + j * kQueries, p, Whole{});
      sum += p;
    }
    state.sum[g] = sum;
    for (int lane = 0; lane < kLanes; ++lane) changed |= shrink[g][lane] != 1.0f;
  }
  return changed;
}

template <class T>
void query_block(const AttentionForwardCpu& k, int64_t b, int64_t h, int64_t i0) {
  const AttentionShape& s = k.shape;
  const int64_t rows = least(kQueries, s.positions - i0), kv = (s.head_offset + h) / s.group;
  float* q = scratch_floats(ScratchSlot::work, kQueries * (2 * s.dim + kKeys) + 2 * kKeys * s.dim);  // [dim][query]
  float* out = q + kQueries * s.dim;                                                                 // [dim][query]
  float* scores = out + kQueries * s.dim;                                                            // [key][query]
  float* k_copy = scores + kQueries * kKeys;
  float* v_copy = k_copy + kKeys * s.dim;
  pack_transposed(at<T>(k.q, k.q_at, b, i0, h), k.q_at.position, rows, s.dim, s.scale, q);
  for (int64_t i = 0; i < kQueries * s.dim; i += kLanes) store(out + i, vf{}, Whole{});
  Softmax state;
  for (int g = 0; g < kGroups; ++g) {
    state.maximum[g] = set1(-__builtin_inff());
    state.sum[g] = vf{};
  }

  const Visibility see(s, b, i0, rows);
  for (int64_t j0 = see.begin; j0 < see.end; j0 += kKeys) {
    const int64_t keys = least(kKeys, see.end - j0);
    const Rows key = rows_of(at<T>(k.k, k.k_at, b, j0, kv), k.k_at.position, keys, s.dim, k_copy);
    see.slices(j0, keys, [&](int64_t c, int64_t n, int64_t lane) {
      block_product<false>(n, kQueries - lane, s.dim, key.data + c * key.stride, key.stride, 1, q + lane, kQueries,
                           scores + c * kQueries + lane, kQueries);
    });
    vf shrink[kGroups];
    const bool changed = see.masked(j0, keys) ? absorb<true>(scores, j0, keys, see, state, shrink)
                                              : absorb<false>(scores, j0, keys, see, state, shrink);
    if (changed && j0 > see.begin)
      for (int64_t d = 0; d < s.dim; ++d)
        for (int g = 0; g < kGroups; ++g) {
          float* o = out + d * kQueries + g * kLanes;
          store(o, load(o, Whole{}) * shrink[g], Whole{});
        }
    const Rows value = rows_of(at<T>(k.v, k.v_at, b, j0, kv), k.v_at.position, keys, s.dim, v_copy);
    see.slices(j0, keys, [&](int64_t c, int64_t n, int64_t lane) {
      block_product<true>(s.dim, kQueries - lane, n, value.data + c * value.stride, 1, value.stride,
                          scores + c * kQueries + lane, kQueries, out + lane, kQueries);
    });
  }

  vf inverse[kGroups];
  for (int g = 0; g < kGroups; ++g) inverse[g] = 1.0f / state.sum[g];
  unpack_transposed(out, inverse, rows, s.dim, at<T>(k.out, k.out_at, b, i0, h), k.out_at.position);
  float* lse = k.lse + (b * s.heads + h) * s.positions + i0;
  for (int64_t i = 0; i < rows; ++i) {
    const int g = static_cast<int>(i / kLanes), lane = static_cast<int>(i % kLanes);
    lse[i] = state.maximum[g][lane] + __builtin_logf(state.sum[g][lane]);
  }
}

}  // namespace

void attention_forward(const AttentionForwardCpu& k) {
  const AttentionShape& s = k.shape;
  const int64_t blocks = (s.positions + kQueries - 1) / kQueries, tasks = s.batch * s.heads * blocks;
#pragma omp parallel for schedule(dynamic) if (tasks > 1)
  for (int64_t t = 0; t < tasks; ++t) {
    // Late blocks see the most keys: the longest tasks go first. Tasks of one head stay together in cache.
    const int64_t bh = t / blocks, i0 = (blocks - 1 - t % blocks) * kQueries;
    with_storage(s.bf16, [&]<class T>() { query_block<T>(k, bh / s.heads, bh % s.heads, i0); });
  }
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
