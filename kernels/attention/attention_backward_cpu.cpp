// kernels/attention/attention_backward_cpu.cpp -- key/value heads over threads; the gradients of a head's keys and
// values are gathered by its one thread over query heads and query blocks in ascending order.
#include "kernels/attention/attention_blocks.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {
namespace {

struct Buffers {
  float *dk, *dv;             // [positions][padded]
  float *q, *dout, *dq;       // [dim][query]
  float *q_rows, *dout_rows;  // [query][padded]
  float *weights, *dscores;   // [key][query]
  float *k_copy, *v_copy;     // [key][dim]
  int64_t padded;             // dim rounded up to whole vectors
};
Buffers buffers(const AttentionShape& s) {
  Buffers u{};
  u.padded = (s.dim + kLanes - 1) / kLanes * kLanes;
  u.dk = scratch_floats(ScratchSlot::partial, 2 * s.positions * u.padded);
  u.dv = u.dk + s.positions * u.padded;
  u.q = scratch_floats(ScratchSlot::work, kQueries * (3 * s.dim + 2 * u.padded + 2 * kKeys) + 2 * kKeys * s.dim);
  u.dout = u.q + kQueries * s.dim;
  u.dq = u.dout + kQueries * s.dim;
  u.q_rows = u.dq + kQueries * s.dim;
  u.dout_rows = u.q_rows + kQueries * u.padded;
  u.weights = u.dout_rows + kQueries * u.padded;
  u.dscores = u.weights + kQueries * kKeys;
  u.k_copy = u.dscores + kQueries * kKeys;
  u.v_copy = u.k_copy + kKeys * s.dim;
  return u;
}

// weights = exp(scores - lse); dscores = weights (dweights - delta): both from the products already in place.
template <bool kMasked>
void score_gradients(const Buffers& u, int64_t j0, int64_t keys, const Visibility& see, const float* lse,
                     const float* delta) {
  for (int g = 0; g < kGroups; ++g) {
    const vf l = load(lse + g * kLanes, Whole{}), d = load(delta + g * kLanes, Whole{});
    const int64_t seen = kMasked ? see.covered(j0, keys, g) : keys;
    for (int64_t j = 0; j < seen; ++j) {
      float* p = u.weights + j * kQueries + g * kLanes;
      float* ds = u.dscores + j * kQueries + g * kLanes;
      vf w = exp_bounded(load(p, Whole{}) - l);
      if constexpr (kMasked) w = see.visible(j0 + j, g) ? w : vf{};
      store(p, w, Whole{});
      store(ds, w * (load(ds, Whole{}) - d), Whole{});
    }
  }
}

template <class T>
void query_block(const AttentionBackwardCpu& k, const Buffers& u, int64_t b, int64_t h, int64_t kv, int64_t i0) {
  const AttentionShape& s = k.shape;
  const int64_t rows = least(kQueries, s.positions - i0);
  const T* q = at<T>(k.q, k.q_at, b, i0, h);
  const T* dout = at<T>(k.dout, k.dout_at, b, i0, h);
  pack_transposed(q, k.q_at.position, rows, s.dim, s.scale, u.q);
  pack_transposed(dout, k.dout_at.position, rows, s.dim, 1.0f, u.dout);
  pack_rows(q, k.q_at.position, rows, s.dim, u.padded, s.scale, u.q_rows);
  pack_rows(dout, k.dout_at.position, rows, s.dim, u.padded, 1.0f, u.dout_rows);
  for (int64_t i = 0; i < kQueries * s.dim; i += kLanes) store(u.dq + i, vf{}, Whole{});

  const int64_t first = (b * s.heads + h) * s.positions + i0;
  float lse[kQueries], delta[kQueries];
  for (int64_t i = 0; i < kQueries; ++i) {
    lse[i] = i < rows ? k.lse[first + i] : __builtin_inff();  // exp(x - inf) = 0: absent queries weigh nothing
    delta[i] = 0;
    if (i >= rows) continue;
    const T* out = at<T>(k.out, k.out_at, b, i0 + i, h);
    vf sum_[4] = {};
    sweep4(s.dim, [&](int64_t d, auto part, auto n) {
      sum_[n.value] += load(out + d, part) * load(dout + i * k.dout_at.position + d, part);
    });
    delta[i] = k.delta[first + i] = sum4(sum_);
  }

  const Visibility see(s, b, i0, rows);
  for (int64_t j0 = see.begin; j0 < see.end; j0 += kKeys) {
    const int64_t keys = least(kKeys, see.end - j0);
    const Rows key = rows_of(at<T>(k.k, k.k_at, b, j0, kv), k.k_at.position, keys, s.dim, u.k_copy);
    const Rows value = rows_of(at<T>(k.v, k.v_at, b, j0, kv), k.v_at.position, keys, s.dim, u.v_copy);
    see.slices(j0, keys, [&](int64_t c, int64_t n, int64_t lane) {
      const int64_t to = c * kQueries + lane;
      block_product<false>(n, kQueries - lane, s.dim, key.data + c * key.stride, key.stride, 1, u.q + lane, kQueries,
                           u.weights + to, kQueries);
      block_product<false>(n, kQueries - lane, s.dim, value.data + c * value.stride, value.stride, 1, u.dout + lane,
                           kQueries, u.dscores + to, kQueries);
    });
    if (see.masked(j0, keys))
      score_gradients<true>(u, j0, keys, see, lse, delta);
    else
      score_gradients<false>(u, j0, keys, see, lse, delta);
    see.slices(j0, keys, [&](int64_t c, int64_t n, int64_t lane) {
      const float *weights = u.weights + c * kQueries + lane, *dscores = u.dscores + c * kQueries + lane;
      const int64_t queries = kQueries - lane, row = (j0 + c) * u.padded;
      block_product<true>(n, u.padded, queries, weights, kQueries, 1, u.dout_rows + lane * u.padded, u.padded,
                          u.dv + row, u.padded);
      block_product<true>(n, u.padded, queries, dscores, kQueries, 1, u.q_rows + lane * u.padded, u.padded, u.dk + row,
                          u.padded);
      block_product<true>(s.dim, queries, n, key.data + c * key.stride, 1, key.stride, dscores, kQueries, u.dq + lane,
                          kQueries);
    });
  }

  vf scale[kGroups];
  for (vf& v : scale) v = set1(s.scale);
  unpack_transposed(u.dq, scale, rows, s.dim, at<T>(k.dq, k.dq_at, b, i0, h), k.dq_at.position);
}

template <class T>
void kv_head(const AttentionBackwardCpu& k, int64_t b, int64_t kv) {
  const AttentionShape& s = k.shape;
  const Buffers u = buffers(s);
  for (int64_t i = 0; i < 2 * s.positions * u.padded; i += kLanes) store(u.dk + i, vf{}, Whole{});
  const int64_t begin = most(0, kv * s.group - s.head_offset);
  const int64_t end = least(s.heads, (kv + 1) * s.group - s.head_offset);
  for (int64_t h = begin; h < end; ++h)
    for (int64_t i0 = 0; i0 < s.positions; i0 += kQueries) query_block<T>(k, u, b, h, kv, i0);
  for (int64_t j = 0; j < s.positions; ++j) {
    T* dk = at<T>(k.dk, k.dk_at, b, j, kv);
    T* dv = at<T>(k.dv, k.dv_at, b, j, kv);
    sweep(s.dim, [&](int64_t d, auto part) {
      store(dk + d, load(u.dk + j * u.padded + d, part), part);
      store(dv + d, load(u.dv + j * u.padded + d, part), part);
    });
  }
}

}  // namespace

void attention_backward(const AttentionBackwardCpu& k) {
  const AttentionShape& s = k.shape;
  const int64_t tasks = s.batch * s.kv_heads;
#pragma omp parallel for schedule(dynamic) if (tasks > 1)
  for (int64_t t = 0; t < tasks; ++t)
    with_storage(s.bf16, [&]<class T>() { kv_head<T>(k, t / s.kv_heads, t % s.kv_heads); });
}

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
