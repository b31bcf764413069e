// kernels/attention/attention_blocks.h -- blocks of queries and keys, shared by forward and backward (*_cpu.cpp only).
//
// Queries lie in lanes: scores are held as [key][query], so that softmax runs down vectors without sums across lanes,
// and keys and values are read as they are stored. Only the query block is transposed, once per block.
#pragma once

#include "kernels/attention/attention_cpu.h"
#include "kernels/common/chunks.h"
#include "kernels/common/math.h"
#include "kernels/common/tile.h"

namespace trainctl::kernels::TRAINCTL_LEVEL {

constexpr int64_t kQueries = 64;  // queries of a block: a multiple of every vector width
constexpr int64_t kKeys = 64;     // keys of a block
constexpr int64_t kSlice = 16;    // keys of a slice of a block on the diagonal
constexpr int kGroups = kQueries / kLanes;

template <class T>
TRAINCTL_INLINE const T* at(const void* base, const AttentionStrides& s, int64_t b, int64_t i, int64_t h) {
  return static_cast<const T*>(base) + b * s.batch + i * s.position + h * s.head;
}
template <class T>
TRAINCTL_INLINE T* at(void* base, const AttentionStrides& s, int64_t b, int64_t i, int64_t h) {
  return static_cast<T*>(base) + b * s.batch + i * s.position + h * s.head;
}

// to[d][i] = factor x[i][d]; lanes i >= rows become 0.
template <class T>
TRAINCTL_INLINE void pack_transposed(const T* x, int64_t stride, int64_t rows, int64_t dim, float factor, float* to) {
  for (int64_t i0 = 0; i0 < kQueries; i0 += kLanes)
    sweep(dim, [&](int64_t d0, auto part) {
      vf r[kLanes];
      for (int i = 0; i < kLanes; ++i) r[i] = i0 + i < rows ? load(x + (i0 + i) * stride + d0, part) * factor : vf{};
      transpose(r);
      for (int d = 0; d < part.count; ++d) store(to + (d0 + d) * kQueries + i0, r[d], Whole{});
    });
}
// x[i][d] = factor[i] from[d][i] for i < rows.
template <class T>
TRAINCTL_INLINE void unpack_transposed(const float* from, const vf (&factor)[kGroups], int64_t rows, int64_t dim, T* x,
                                       int64_t stride) {
  for (int g = 0; g < kGroups; ++g)
    sweep(dim, [&](int64_t d0, auto part) {
      vf r[kLanes];
      for (int d = 0; d < kLanes; ++d)
        r[d] = d < part.count ? load(from + (d0 + d) * kQueries + g * kLanes, Whole{}) * factor[g] : vf{};
      transpose(r);
      for (int64_t i = 0; i < least(kLanes, rows - g * kLanes); ++i)
        store(x + (g * kLanes + i) * stride + d0, r[i], part);
    });
}
// to[i][0..padded) = factor x[i][d]; rows beyond and columns beyond dim become 0.
template <class T>
TRAINCTL_INLINE void pack_rows(const T* x, int64_t stride, int64_t rows, int64_t dim, int64_t padded, float factor,
                               float* to) {
  for (int64_t i = 0; i < kQueries; ++i)
    for (int64_t d = 0; d < padded; d += kLanes) {
      vf v{};
      if (i < rows && d + kLanes <= dim)
        v = load(x + i * stride + d, Whole{});
      else if (i < rows && d < dim)
        v = load(x + i * stride + d, Part{static_cast<int>(dim - d)});
      store(to + i * padded + d, v * factor, Whole{});
    }
}

// Rows of keys or values as f32: where they lie when they are f32, else a converted copy.
struct Rows {
  const float* data;
  int64_t stride;
};
TRAINCTL_INLINE Rows rows_of(const float* x, int64_t stride, int64_t, int64_t, float*) { return {x, stride}; }
TRAINCTL_INLINE Rows rows_of(const Bf16* x, int64_t stride, int64_t rows, int64_t dim, float* copy) {
  for (int64_t j = 0; j < rows; ++j)
    sweep(dim, [&](int64_t d, auto part) { store(copy + j * dim + d, load(x + j * stride + d, part), part); });
  return {copy, dim};
}

// Which keys each query of a block may see.
struct Visibility {
  vi query[kGroups], first[kGroups];  // positions
  int64_t begin, end;                 // keys that some query sees: [begin, end)
  int64_t latest_first;               // the largest `first`
  int64_t first_query;

  TRAINCTL_INLINE Visibility(const AttentionShape& s, int64_t b, int64_t i0, int64_t rows) {
    begin = s.document_start ? i0 : 0;
    latest_first = 0;
    first_query = i0;
    end = i0 + rows;
    for (int g = 0; g < kGroups; ++g)
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t i = i0 + g * kLanes + lane;
        int32_t start = 0;
        if (s.document_start && i < end) {
          start = s.document_start[b * s.positions + i];
          begin = least(begin, start);
          latest_first = most(latest_first, start);
        }
        query[g][lane] = static_cast<int32_t>(i);
        first[g][lane] = start;
      }
    begin = most(begin, 0);
  }
  // Whether some query of the block may not see some key of [j0, j0 + keys).
  TRAINCTL_INLINE bool masked(int64_t j0, int64_t keys) const {
    return j0 + keys - 1 > first_query || j0 < latest_first;
  }
  // f(first key, keys, first lane) over a block of keys. On the diagonal the block comes in slices, each without the
  // vectors of queries that see none of its keys: nothing is computed for those, and nothing may be read.
  template <class F>
  TRAINCTL_INLINE void slices(int64_t j0, int64_t keys, F&& f) const {
    if (j0 + keys - 1 <= first_query) {
      f(int64_t{0}, keys, int64_t{0});
      return;
    }
    for (int64_t c = 0; c < keys; c += kSlice)
      f(c, least(kSlice, keys - c), most(0, j0 + c - first_query) / kLanes * kLanes);
  }
  // Keys of the block that slices() covers for lane group g.
  TRAINCTL_INLINE int64_t covered(int64_t j0, int64_t keys, int g) const {
    const int64_t seen = first_query + (g + 1) * kLanes - j0;
    return least(keys, (seen + kSlice - 1) / kSlice * kSlice);
  }
  TRAINCTL_INLINE vi visible(int64_t key, int g) const {
    const vi j = set1i(static_cast<int32_t>(key));
    return (j <= query[g]) & (j >= first[g]);
  }
};

}  // namespace trainctl::kernels::TRAINCTL_LEVEL
