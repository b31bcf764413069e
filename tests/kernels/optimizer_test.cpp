// tests/kernels/optimizer_test.cpp -- AdamW, SGD and the sums an optimizer needs, against f64.
#include <cmath>

#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

TEST_CASE("AdamW follows its equations over several steps", "[kernels][adamw]") {
  for (const std::string& level : levels())
    for (const int64_t n : {0, 1, 5, 16, 37, 1000}) {
      INFO(level << " n " << n);
      Rig rig;
      const auto adamw = cpu_kernels_at(level).get<AdamW>();
      const Tensor master = rig.random({n}, DType::f32, 1), weight = rig.empty({n}, DType::bf16);
      const Tensor m = rig.constant({n}, DType::f32, 0), v = rig.constant({n}, DType::f32, 0);
      Values w = values(master), em(w.size()), ev(w.size());
      const double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1, scale = 0.125;
      for (int64_t step = 1; step <= 4; ++step) {
        const Tensor grad = rig.random({n}, DType::f32, 10 + static_cast<uint64_t>(step), 3.0);
        adamw({.master = master,
               .m = m,
               .v = v,
               .weight = weight,
               .grad = grad,
               .lr = lr,
               .beta1 = b1,
               .beta2 = b2,
               .eps = eps,
               .weight_decay = decay,
               .grad_scale = static_cast<float>(scale),
               .step = step},
              rig.stream());
        const Values g = values(grad);
        for (size_t i = 0; i < w.size(); ++i) {
          em[i] = b1 * em[i] + (1 - b1) * scale * g[i];
          ev[i] = b2 * ev[i] + (1 - b2) * std::pow(scale * g[i], 2);
          const double mean = em[i] / (1 - std::pow(b1, step)), square = ev[i] / (1 - std::pow(b2, step));
          w[i] -= lr * (mean / (std::sqrt(square) + eps) + decay * w[i]);
        }
        CHECK(error(master, w) < 1e-6);
        CHECK(error(m, em) < 1e-6);
        CHECK(error(v, ev) < 1e-6);
        const Tensor rounded = rig.empty({n}, DType::bf16);
        assign(rounded, values(master));
        CHECK(same_bits(weight, rounded));
      }
    }
}

TEST_CASE("AdamW without a bf16 copy makes the same update", "[kernels][adamw]") {
  Rig rig;
  const auto adamw = cpu_kernels().get<AdamW>();
  Tensor master[2];
  for (int i = 0; i < 2; ++i) {
    master[i] = rig.random({100}, DType::f32, 1);
    const Tensor m = rig.random({100}, DType::f32, 2), v = rig.constant({100}, DType::f32, 0.5);
    adamw({.master = master[i],
           .m = m,
           .v = v,
           .weight = i ? rig.empty({100}, DType::bf16) : Tensor(),
           .grad = rig.random({100}, DType::f32, 3),
           .lr = 0.1,
           .weight_decay = 0.2,
           .step = 3},
          rig.stream());
  }
  CHECK(same_bits(master[0], master[1]));
}

TEST_CASE("SGD follows its equations with and without momentum", "[kernels][sgd]") {
  for (const std::string& level : levels())
    for (const int64_t n : {0, 1, 16, 37})
      for (const bool with_buffer : {false, true})
        for (const bool with_weight : {false, true}) {
          INFO(level << " n " << n << " buffer " << with_buffer << " weight " << with_weight);
          Rig rig;
          const auto sgd = cpu_kernels_at(level).get<Sgd>();
          const Tensor master = rig.random({n}, DType::f32, 1);
          const Tensor buffer = with_buffer ? rig.constant({n}, DType::f32, 0) : Tensor();
          const Tensor weight = with_weight ? rig.empty({n}, DType::bf16) : Tensor();
          Values w = values(master), b(w.size());
          for (uint64_t step = 0; step < 3; ++step) {
            const Tensor grad = rig.random({n}, DType::f32, 10 + step);
            sgd({.master = master,
                 .buffer = buffer,
                 .weight = weight,
                 .grad = grad,
                 .lr = 0.1,
                 .momentum = 0.9,
                 .weight_decay = 0.01,
                 .grad_scale = 0.5f},
                rig.stream());
            for (size_t i = 0; i < w.size(); ++i) {
              const double g = 0.5 * values(grad)[i] + 0.01 * w[i];
              b[i] = with_buffer ? 0.9 * b[i] + g : g;
              w[i] -= 0.1 * b[i];
            }
          }
          CHECK(error(master, w) < 1e-6);
          if (with_buffer) CHECK(error(buffer, b) < 1e-6);
          if (with_weight) {
            const Tensor rounded = rig.empty({n}, DType::bf16);
            assign(rounded, values(master));
            CHECK(same_bits(weight, rounded));
          }
        }
}

TEST_CASE("a sum of squares is added in f64 and shows any non-finite element", "[kernels][reduce]") {
  for (const std::string& level : levels())
    for (const int64_t n : {0, 1, 15, 16, 63, 64, 65, 16384, 40000}) {
      INFO(level << " n " << n);
      Rig rig;
      const auto squares = cpu_kernels_at(level).get<SumOfSquares>();
      const Tensor x = rig.random({n}, DType::f32, 1), out = rig.constant({1}, DType::f64, 0.5);
      double want = 0.5;
      for (const double v : values(x)) want += v * v;
      squares({.x = x, .out = out}, rig.stream());
      CHECK(std::abs(values(out)[0] - want) < 1e-12 * want);
      for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")})
        for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
          if (n == 0) continue;
          const Tensor broken = rig.copy(x);
          static_cast<float*>(broken.data())[place] = static_cast<float>(bad);
          squares({.x = broken, .out = out}, rig.stream());
          CHECK_FALSE(std::isfinite(values(out)[0]));
          assign(out, {0.0});
        }
    }
}

TEST_CASE("column sums are accumulated, for strided rows too", "[kernels][reduce]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage)
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 5}, {1, 1}, {3, 37}, {200, 300}, {65, 256}}) {
        INFO(level << " " << name(dtype) << " " << rows << " x " << cols);
        Rig rig;
        const Tensor x = rig.spread(rig.random({rows, cols}, dtype, 1), cols + 7);
        const Tensor out = rig.random({cols}, DType::f32, 2);
        Values want = values(out);
        const Values v = values(x);
        for (size_t i = 0; i < v.size(); ++i) want[i % static_cast<size_t>(cols)] += v[i];
        cpu_kernels_at(level).get<ColumnSum>()({.x = x, .out = out}, rig.stream());
        CHECK(error(out, want) < 2e-6);
      }
}
