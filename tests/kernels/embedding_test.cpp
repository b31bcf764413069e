// tests/kernels/embedding_test.cpp -- table lookup and its gradient, whole and in shards of rows.
#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

const std::vector<int32_t> kIds = {4, 0, 4, 9, 7, 4, 2, 9, 11};

}  // namespace

TEST_CASE("a lookup copies rows of this shard and gives zeros for the others", "[kernels][embedding]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t cols : {1, 7, 32, 130}) {
        INFO(level << " " << name(dtype) << " D " << cols);
        Rig rig;
        const auto forward = cpu_kernels_at(level).get<EmbeddingForward>();
        const Tensor weight = rig.random({12, cols}, dtype, 1), ids = rig.integers(kIds);
        const int64_t n = static_cast<int64_t>(kIds.size());
        const Tensor whole = rig.constant({n, cols}, dtype, 5), low = rig.constant({n, cols}, dtype, 5);
        const Tensor high = rig.constant({n, cols}, dtype, 5), none = rig.constant({n, cols}, dtype, 5);
        forward({.ids = ids, .weight = weight, .y = whole}, rig.stream());
        forward({.ids = ids, .weight = weight.slice(0, 0, 5), .y = low}, rig.stream());
        forward({.ids = ids, .weight = weight.slice(0, 5, 12), .y = high, .row_begin = 5}, rig.stream());
        forward({.ids = ids, .weight = weight.slice(0, 0, 0), .y = none, .row_begin = 5}, rig.stream());
        for (int64_t t = 0; t < n; ++t) {
          const int32_t id = kIds[static_cast<size_t>(t)];
          CHECK(values(whole.slice(0, t, t + 1)) == values(weight.slice(0, id, id + 1)));
        }
        Values sum = values(low);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += values(high)[i];
        CHECK(sum == values(whole));
        CHECK(values(none) == Values(values(whole).size(), 0.0));
      }
}

TEST_CASE("the gradient adds each token's row to its word, ascending", "[kernels][embedding]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const int64_t cols : {1, 7, 32, 130}) {
        INFO(level << " " << name(dtype) << " D " << cols);
        Rig rig;
        const auto backward = cpu_kernels_at(level).get<EmbeddingBackward>();
        const int64_t n = static_cast<int64_t>(kIds.size());
        const Tensor dy = rig.random({n, cols}, dtype, 2), ids = rig.integers(kIds);
        for (const int64_t begin : {0, 3}) {
          const Tensor dweight = rig.random({8, cols}, DType::f32, 3), want = rig.copy(dweight);
          backward({.ids = ids, .dy = dy, .dweight = dweight, .row_begin = begin}, rig.stream());
          float* w = static_cast<float*>(want.data());
          const Values d = values(dy);
          for (size_t t = 0; t < kIds.size(); ++t) {  // the contract's order, in f32: equal bits
            const int64_t row = kIds[t] - begin;
            if (row < 0 || row >= 8) continue;
            for (int64_t c = 0; c < cols; ++c)
              w[row * cols + c] += static_cast<float>(d[t * static_cast<size_t>(cols) + static_cast<size_t>(c)]);
          }
          CHECK(same_bits(dweight, want));
        }
      }
}

TEST_CASE("no tokens change nothing", "[kernels][embedding]") {
  Rig rig;
  const Tensor dweight = rig.constant({3, 4}, DType::f32, 2);
  cpu_kernels().get<EmbeddingBackward>()({.ids = rig.integers({}), .dy = rig.empty({0, 4}), .dweight = dweight},
                                         rig.stream());
  CHECK(values(dweight) == Values(12, 2.0));
}
