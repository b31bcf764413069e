// tests/kernels/attention_test.cpp -- attention against a plain f64 softmax, and its gradients against f64.
#include <cmath>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

namespace {

struct Case {
  int64_t batch, positions, heads, kv_heads, dim, group, head_offset;
  std::vector<int32_t> document_start;  // [batch * positions] or empty
  double scale;
};

size_t index(std::initializer_list<std::pair<int64_t, int64_t>> at) {  // (coordinate, extent) pairs, row-major
  int64_t i = 0;
  for (const auto& [c, n] : at) i = i * n + c;
  return static_cast<size_t>(i);
}

struct Reference {
  Values out, lse, dq, dk, dv;
};

// The textbook: the whole row of scores, softmax, weighted sum; gradients by the chain rule. `stored_out`: the rounded
// output that a bf16 backward is given, when there is one.
Reference attend(const Case& c, const Values& q, const Values& k, const Values& v, const Values& dout,
                 const Values* stored_out = nullptr) {
  Reference r{Values(q.size()), Values(static_cast<size_t>(c.batch * c.heads * c.positions)), Values(q.size()),
              Values(k.size()), Values(k.size())};
  const auto qi = [&](int64_t b, int64_t i, int64_t h, int64_t d) {
    return index({{b, c.batch}, {i, c.positions}, {h, c.heads}, {d, c.dim}});
  };
  const auto ki = [&](int64_t b, int64_t j, int64_t h, int64_t d) {
    return index({{b, c.batch}, {j, c.positions}, {(c.head_offset + h) / c.group, c.kv_heads}, {d, c.dim}});
  };
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.positions; ++i) {
        const int64_t first = c.document_start.empty() ? 0 : c.document_start[index({{b, c.batch}, {i, c.positions}})];
        Values p(static_cast<size_t>(i - first + 1)), dp(p.size());
        double top = -HUGE_VAL, sum = 0, mean = 0;
        for (int64_t j = first; j <= i; ++j) {
          double s = 0;
          for (int64_t d = 0; d < c.dim; ++d) s += q[qi(b, i, h, d)] * k[ki(b, j, h, d)];
          p[static_cast<size_t>(j - first)] = s * c.scale;
          top = std::max(top, s * c.scale);
        }
        for (double& s : p) sum += s = std::exp(s - top);
        r.lse[index({{b, c.batch}, {h, c.heads}, {i, c.positions}})] = top + std::log(sum);
        for (int64_t j = first; j <= i; ++j) {
          double& w = p[static_cast<size_t>(j - first)];
          w /= sum;
          for (int64_t d = 0; d < c.dim; ++d) {
            r.out[qi(b, i, h, d)] += w * v[ki(b, j, h, d)];
            r.dv[ki(b, j, h, d)] += w * dout[qi(b, i, h, d)];
            dp[static_cast<size_t>(j - first)] += dout[qi(b, i, h, d)] * v[ki(b, j, h, d)];
          }
          mean += w * dp[static_cast<size_t>(j - first)];
        }
        if (stored_out) {
          mean = 0;
          for (int64_t d = 0; d < c.dim; ++d) mean += (*stored_out)[qi(b, i, h, d)] * dout[qi(b, i, h, d)];
        }
        for (int64_t j = first; j <= i; ++j) {
          const double ds = p[static_cast<size_t>(j - first)] * (dp[static_cast<size_t>(j - first)] - mean) * c.scale;
          for (int64_t d = 0; d < c.dim; ++d) {
            r.dq[qi(b, i, h, d)] += ds * k[ki(b, j, h, d)];
            r.dk[ki(b, j, h, d)] += ds * q[qi(b, i, h, d)];
          }
        }
      }
  return r;
}

struct Result {
  Tensor q, k, v, dout, out, lse, dq, dk, dv;
};

// q, k and v stand inside one fused projection, as the engine keeps them.
Result run(Rig& rig, const KernelTable& table, const Case& c, DType dtype, double size = 1.0) {
  const int64_t width = (c.heads + 2 * c.kv_heads) * c.dim;
  const Tensor fused = rig.random({c.batch, c.positions, width}, dtype, 11, size);
  const auto part = [&](const Tensor& whole, int64_t heads, int64_t column) {
    return whole.strided({c.batch, c.positions, heads, c.dim}, {c.positions * width, width, c.dim, 1}, column);
  };
  const Tensor fused_gradient = rig.constant({c.batch, c.positions, width}, dtype, std::nan(""));
  const int64_t k0 = c.heads * c.dim, v0 = k0 + c.kv_heads * c.dim;
  const Shape shape = {c.batch, c.positions, c.heads, c.dim}, rows = {c.batch, c.heads, c.positions};
  Result r{.q = part(fused, c.heads, 0),
           .k = part(fused, c.kv_heads, k0),
           .v = part(fused, c.kv_heads, v0),
           .dout = rig.random(shape, dtype, 12),
           .out = rig.empty(shape, dtype),
           .lse = rig.empty(rows),
           .dq = part(fused_gradient, c.heads, 0),
           .dk = part(fused_gradient, c.kv_heads, k0),
           .dv = part(fused_gradient, c.kv_heads, v0)};
  Tensor documents;
  if (!c.document_start.empty()) documents = rig.integers(c.document_start).reshape({c.batch, c.positions});
  table.get<AttentionForward>()({.q = r.q,
                                 .k = r.k,
                                 .v = r.v,
                                 .document_start = documents,
                                 .out = r.out,
                                 .lse = r.lse,
                                 .scale = static_cast<float>(c.scale),
                                 .group = c.group,
                                 .head_offset = c.head_offset},
                                rig.stream());
  table.get<AttentionBackward>()({.q = r.q,
                                  .k = r.k,
                                  .v = r.v,
                                  .document_start = documents,
                                  .out = r.out,
                                  .lse = r.lse,
                                  .dout = r.dout,
                                  .dq = r.dq,
                                  .dk = r.dk,
                                  .dv = r.dv,
                                  .delta = rig.empty(rows),
                                  .scale = static_cast<float>(c.scale),
                                  .group = c.group,
                                  .head_offset = c.head_offset},
                                 rig.stream());
  return r;
}

void check_case(const KernelTable& table, const Case& c, DType dtype, double size = 1.0) {
  INFO(name(dtype) << " B " << c.batch << " S " << c.positions << " H " << c.heads << " K " << c.kv_heads << " D "
                   << c.dim << " group " << c.group << " offset " << c.head_offset);
  Rig rig;
  const Result r = run(rig, table, c, dtype, size);
  const Values out = values(r.out);
  const Reference want =
      attend(c, values(r.q), values(r.k), values(r.v), values(r.dout), dtype == DType::bf16 ? &out : nullptr);
  const double floor = 0.05;  // a single key has no gradient: what is left of dq and dk is rounding
  CHECK(error(out, want.out) < tolerance(dtype, 5e-6));
  CHECK(error(r.lse, want.lse) < 5e-6);
  CHECK(error(r.dq, want.dq, floor) < tolerance(dtype, 1e-5));
  CHECK(error(r.dk, want.dk, floor) < tolerance(dtype, 1e-5));
  CHECK(error(r.dv, want.dv) < tolerance(dtype, 1e-5));
}

Case plain(int64_t batch, int64_t positions, int64_t heads, int64_t kv_heads, int64_t dim) {
  return {batch, positions, heads, kv_heads, dim, heads / kv_heads, 0, {}, 1.0 / std::sqrt(static_cast<double>(dim))};
}

// Starts of documents of the given lengths, one sequence.
std::vector<int32_t> documents(std::initializer_list<int32_t> lengths) {
  std::vector<int32_t> starts;
  int32_t begin = 0;
  for (const int32_t n : lengths) {
    starts.insert(starts.end(), static_cast<size_t>(n), begin);
    begin += n;
  }
  return starts;
}

}  // namespace

TEST_CASE("attention and its gradients equal the textbook at every size", "[kernels][attention]") {
  for (const std::string& level : levels()) {
    INFO(level);
    const auto table = cpu_kernels_at(level);
    for (const DType dtype : kStorage) {
      check_case(table, plain(2, 1, 1, 1, 16), dtype);
      check_case(table, plain(1, 63, 2, 2, 16), dtype);
      check_case(table, plain(2, 64, 2, 1, 64), dtype);
      check_case(table, plain(1, 65, 2, 2, 5), dtype);
      check_case(table, plain(1, 130, 4, 2, 80), dtype);
      check_case(table, plain(1, 200, 1, 1, 128), dtype);
      check_case(table, plain(1, 17, 3, 1, 33), dtype);
    }
  }
}

TEST_CASE("a shard that begins inside a group of query heads uses the right key heads", "[kernels][attention]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Case c = plain(1, 70, 4, 3, 16);
    c.group = 3;
    c.head_offset = 2;  // query heads 2 | 3 4 5 of the whole model: key heads 0 and 1; key head 2 has no query here
    for (const DType dtype : kStorage) check_case(cpu_kernels_at(level), c, dtype);
    Rig rig;
    const Result r = run(rig, cpu_kernels_at(level), c, DType::f32);
    CHECK(values(r.dk.slice(2, 2, 3)) == Values(70 * 16, 0.0));
  }
}

TEST_CASE("attention looks no further back than the document's start", "[kernels][attention]") {
  for (const std::string& level : levels()) {
    INFO(level);
    for (const DType dtype : kStorage) {
      Case c = plain(2, 150, 2, 1, 32);
      c.document_start = documents({40, 1, 59, 50});
      for (const int32_t start : documents({129, 21})) c.document_start.push_back(start);
      check_case(cpu_kernels_at(level), c, dtype);
    }
  }
}

TEST_CASE("large scores do not overflow", "[kernels][attention]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Case c = plain(1, 100, 1, 1, 16);
    c.scale = 8;
    Rig rig;
    const Result r = run(rig, cpu_kernels_at(level), c, DType::f32, 4.0);  // scores of several hundred
    const Reference want = attend(c, values(r.q), values(r.k), values(r.v), values(r.dout));
    CHECK(error(r.out, want.out) < 2e-3);
    CHECK(error(r.lse, want.lse) < 1e-5);
    for (const double g : values(r.dq)) CHECK_FALSE(std::isnan(g));
  }
}

TEST_CASE("one document's content does not reach another's outputs or gradients by a bit", "[kernels][attention]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage) {
      INFO(level << " " << name(dtype));
      const auto table = cpu_kernels_at(level);
      Rig rig;
      const int64_t first = 77, positions = 180;
      const Tensor starts = rig.integers(documents({77, 103})).reshape({1, positions});
      const Shape shape = {1, positions, 1, 32};
      Tensor q = rig.random(shape, dtype, 1), k = rig.random(shape, dtype, 2), v = rig.random(shape, dtype, 3);
      Tensor dout = rig.random(shape, dtype, 4);
      const auto second_document = [&] {
        const Tensor out = rig.empty(shape, dtype), lse = rig.empty({1, 1, positions});
        const Tensor dq = rig.empty(shape, dtype), dk = rig.empty(shape, dtype), dv = rig.empty(shape, dtype);
        table.get<AttentionForward>()(
            {.q = q, .k = k, .v = v, .document_start = starts, .out = out, .lse = lse, .scale = 0.2f}, rig.stream());
        table.get<AttentionBackward>()({.q = q,
                                        .k = k,
                                        .v = v,
                                        .document_start = starts,
                                        .out = out,
                                        .lse = lse,
                                        .dout = dout,
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv,
                                        .delta = rig.empty({1, 1, positions}),
                                        .scale = 0.2f},
                                       rig.stream());
        Values all;
        for (const Tensor& t : {out, dq, dk, dv})
          for (const double x : values(t.slice(1, first, positions))) all.push_back(x);
        return all;
      };
      const Values before = second_document();
      for (const Tensor& t : {q, k, v, dout}) {
        const Tensor document = t.slice(1, 0, first);
        assign(document, values(rig.random(document.shape(), dtype, 99, 50.0)));
      }
      CHECK(second_document() == before);
    }
}

TEST_CASE("the analytic gradients themselves equal central differences", "[kernels][attention]") {
  Case c = plain(1, 9, 2, 1, 3);
  c.document_start = documents({4, 5});
  Rig rig;
  const Values q = values(rig.random({9 * 2 * 3}, DType::f32, 1)), k = values(rig.random({9 * 3}, DType::f32, 2));
  const Values v = values(rig.random({9 * 3}, DType::f32, 3)), w = values(rig.random({9 * 2 * 3}, DType::f32, 4));
  const Reference r = attend(c, q, k, v, w);
  CHECK(error(r.dq, numeric_gradient([&](const Values& at) { return attend(c, at, k, v, w).out; }, q, w)) < 1e-6);
  CHECK(error(r.dk, numeric_gradient([&](const Values& at) { return attend(c, q, at, v, w).out; }, k, w)) < 1e-6);
  CHECK(error(r.dv, numeric_gradient([&](const Values& at) { return attend(c, q, k, at, w).out; }, v, w)) < 1e-6);
}

TEST_CASE("attention over nothing does nothing, and heads without keys are refused", "[kernels][attention]") {
  Rig rig;
  const auto table = cpu_kernels();
  const Tensor none = rig.empty({0, 4, 2, 8}), lse = rig.empty({0, 2, 4});
  CHECK_NOTHROW(table.get<AttentionForward>()(
      {.q = none, .k = none, .v = none, .document_start = {}, .out = none, .lse = lse}, rig.stream()));
  const Tensor q = rig.random({1, 4, 4, 8}, DType::f32, 1), k = rig.random({1, 4, 1, 8}, DType::f32, 2);
  CHECK_THROWS_AS(
      table.get<AttentionForward>()(
          {.q = q, .k = k, .v = k, .document_start = {}, .out = q, .lse = rig.empty({1, 4, 4}), .scale = 1, .group = 2},
          rig.stream()),
      Error);
}

TEST_CASE("attention declares the FLOPs of a causal triangle", "[kernels][attention]") {
  Rig rig;
  const Tensor q = rig.empty({2, 10, 3, 4}), lse = rig.empty({2, 3, 10});
  const AttentionForward forward{.q = q, .k = q, .v = q, .document_start = {}, .out = q, .lse = lse};
  CHECK(flops_of(forward) == 2 * 2 * (2 * 3 * 55) * 4);
}
