// tests/kernels/cross_entropy_test.cpp -- the three steps of sharded cross-entropy against f64.
#include <cmath>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

struct Reference {
  double loss = 0;
  Values gradient;
};
Reference cross_entropy(const Values& logits, const std::vector<int32_t>& labels, int64_t vocab, double scale) {
  Reference r{0, Values(logits.size())};
  for (size_t t = 0; t < labels.size(); ++t) {
    if (labels[t] < 0) continue;
    const double* row = &logits[t * static_cast<size_t>(vocab)];
    double top = row[0], sum = 0;
    for (int64_t c = 0; c < vocab; ++c) top = std::max(top, row[c]);
    for (int64_t c = 0; c < vocab; ++c) sum += std::exp(row[c] - top);
    r.loss += std::log(sum) + top - row[labels[t]];
    for (int64_t c = 0; c < vocab; ++c)
      r.gradient[t * static_cast<size_t>(vocab) + static_cast<size_t>(c)] =
          scale * (std::exp(row[c] - top) / sum - (c == labels[t] ? 1 : 0));
  }
  return r;
}

struct Shards {
  double loss;
  Values gradient;
};
// Cuts the vocabulary at `cuts`, runs every step on each shard and meets between them as ranks do.
Shards run(Rig& rig, const KernelTable& table, const Tensor& all, const std::vector<int32_t>& labels,
           const std::vector<int64_t>& cuts, float scale, bool bf16_out) {
  const int64_t rows = all.dim(0), vocab = all.dim(1);
  const Tensor ids = rig.integers(labels), maximum = rig.constant({rows}, DType::f32, -HUGE_VAL);
  const Tensor sum = rig.constant({rows}, DType::f32, 0), target = rig.constant({rows}, DType::f32, 0);
  const Tensor loss = rig.constant({1}, DType::f64, 100);
  std::vector<Tensor> shards;
  const auto meet = [&](const Tensor& total, const Tensor& part, bool largest) {
    Values a = values(total), b = values(part);
    for (size_t i = 0; i < a.size(); ++i) a[i] = largest ? std::max(a[i], b[i]) : a[i] + b[i];
    assign(total, a);
  };
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    shards.push_back(rig.spread(all.slice(1, cuts[i], cuts[i + 1]), cuts[i + 1] - cuts[i] + 3));
    const Tensor part = rig.empty({rows});
    table.get<CrossEntropyMax>()({.logits = shards[i], .maximum = part}, rig.stream());
    meet(maximum, part, true);
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    const Tensor part_sum = rig.empty({rows}), part_target = rig.empty({rows});
    table.get<CrossEntropySum>()({.logits = shards[i],
                                  .labels = ids,
                                  .maximum = maximum,
                                  .sum = part_sum,
                                  .target = part_target,
                                  .column_begin = cuts[i]},
                                 rig.stream());
    meet(sum, part_sum, false);
    meet(target, part_target, false);
  }
  table.get<CrossEntropyLoss>()({.labels = ids, .sum = sum, .target = target, .loss = loss}, rig.stream());
  const Tensor gradient = rig.empty({rows, vocab});
  for (size_t i = 0; i < shards.size(); ++i) {
    const Tensor logits = shards[i];
    const Tensor rounded = bf16_out ? rig.empty(logits.shape(), DType::bf16) : Tensor();
    const Values before = values(logits);
    table.get<CrossEntropyGrad>()({.logits = logits,
                                   .labels = ids,
                                   .maximum = maximum,
                                   .sum = sum,
                                   .dlogits = rounded,
                                   .scale = scale,
                                   .column_begin = cuts[i]},
                                  rig.stream());
    if (bf16_out) CHECK(values(logits) == before);
    assign(gradient.slice(1, cuts[i], cuts[i + 1]), values(bf16_out ? rounded : logits));
  }
  return {values(loss)[0] - 100, values(gradient)};
}

}  // namespace

TEST_CASE("cross-entropy equals f64 for any vocabulary, whole or in shards", "[kernels][cross_entropy]") {
  for (const std::string& level : levels())
    for (const int64_t vocab : {1, 7, 64, 257, 1000})
      for (const bool bf16_out : {false, true}) {
        INFO(level << " vocabulary " << vocab << " bf16 " << bf16_out);
        Rig rig;
        const auto table = cpu_kernels_at(level);
        const int64_t rows = 9;
        const Tensor logits = rig.random({rows, vocab}, DType::f32, 1, 4.0);
        std::vector<int32_t> labels;
        for (int64_t t = 0; t < rows; ++t) labels.push_back(t % 4 == 1 ? -1 : static_cast<int32_t>((t * 131) % vocab));
        labels[0] = static_cast<int32_t>(vocab - 1);
        const Reference want = cross_entropy(values(logits), labels, vocab, 0.25);
        const std::vector<std::vector<int64_t>> layouts = {
            {0, vocab}, {0, vocab / 2, vocab}, {0, vocab / 3, vocab / 3, vocab}};  // the last has an empty shard
        for (const auto& cuts : layouts) {
          INFO("shards " << cuts.size() - 1);
          const Shards got = run(rig, table, logits, labels, cuts, 0.25f, bf16_out);
          CHECK(std::abs(got.loss - want.loss) < 1e-5 * (1 + want.loss));
          CHECK(error(got.gradient, want.gradient) < tolerance(bf16_out ? DType::bf16 : DType::f32, 5e-6));
          for (size_t t = 0; t < labels.size(); ++t)
            if (labels[t] < 0)
              for (int64_t c = 0; c < vocab; ++c)
                CHECK(got.gradient[t * static_cast<size_t>(vocab) + static_cast<size_t>(c)] == 0.0);
        }
      }
}

TEST_CASE("the gradient equals central differences of the loss", "[kernels][cross_entropy]") {
  Rig rig;
  const Tensor logits = rig.random({3, 11}, DType::f32, 1, 2.0);
  const std::vector<int32_t> labels = {4, -1, 10};
  const auto loss = [&](const Values& at) { return Values{cross_entropy(at, labels, 11, 1).loss}; };
  const Values want = numeric_gradient(loss, values(logits), {1.0});
  for (const std::string& level : levels()) {
    const Shards got = run(rig, cpu_kernels_at(level), logits, labels, {0, 11}, 1.0f, false);
    CHECK(error(got.gradient, want) < 2e-6);
  }
}

TEST_CASE("huge and infinite logits give finite losses; a NaN logit gives a NaN loss", "[kernels][cross_entropy]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto table = cpu_kernels_at(level);
    const Tensor logits = rig.random({2, 40}, DType::f32, 1);
    Values v = values(logits);
    v[3] = 1e30, v[7] = -1e30, v[45] = -HUGE_VAL;
    assign(logits, v);
    const std::vector<int32_t> labels = {3, 1};
    CHECK(std::isfinite(run(rig, table, logits, labels, {0, 20, 40}, 1.0f, false).loss));
    for (const size_t place : {size_t{40}, size_t{57}, size_t{79}}) {
      Values bad = v;
      bad[place] = std::nan("");
      assign(logits, bad);
      CHECK(std::isnan(run(rig, table, logits, labels, {0, 40}, 1.0f, false).loss));
    }
  }
}

TEST_CASE("labels of -1 count in no loss", "[kernels][cross_entropy]") {
  Rig rig;
  const Tensor logits = rig.random({3, 8}, DType::f32, 1);
  const Shards got = run(rig, cpu_kernels(), logits, {-1, -1, -1}, {0, 8}, 1.0f, false);
  CHECK(got.loss == 0);
  CHECK(got.gradient == Values(24, 0.0));
}
