// tests/unit/ops/tape_test.cpp -- the tape: sums at forks, in-place writes only by sole holders, order of markers,
// recomputation, and gradients of a composed function against central differences.
#include <cmath>
#include <vector>

#include "ops/ops.h"
#include "support/catch.h"

namespace trainctl {
namespace {

struct Cpu {
  std::unique_ptr<Device> device = make_cpu_device();
  Arena arena{*device};
  std::unique_ptr<Stream> stream = device->make_compute_stream();
  Context ctx{arena, kernels::cpu_kernels(), *stream};

  Tensor make(Shape shape, double scale, double shift = 0) {
    Tensor t = ctx.empty(shape, DType::f32);
    auto* x = static_cast<float*>(t.data());
    for (int64_t i = 0; i < t.numel(); ++i)
      x[i] = static_cast<float>(shift + scale * std::sin(static_cast<double>(3 * i + 1)));
    return t;
  }
};

std::vector<float> values(const Tensor& t) {
  const auto* x = static_cast<const float*>(t.data());
  return {x, x + t.numel()};
}

}  // namespace

TEST_CASE("a variable used twice gets the sum of both gradients, and shared gradients are never written over",
          "[autograd]") {
  Cpu cpu;
  Tape tape(cpu.ctx);
  const Tensor x = tape.leaf(cpu.make({2, 4}, 1));
  const Tensor doubled = add(tape, x, x);
  const Tensor y = add(tape, doubled, gelu(tape, doubled, false));
  Tensor dy = cpu.make({2, 4}, 0, 1);
  const std::vector<float> before = values(dy);
  const Tensor dx = tape.backward(y, dy, x);
  CHECK(values(dy) == before);  // the caller still holds it
  for (int64_t i = 0; i < 8; ++i) {
    const double v = 2.0 * static_cast<double>(values(x)[static_cast<size_t>(i)]);
    const double cdf = 0.5 * (1 + std::erf(v / std::sqrt(2.0))), pdf = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
    CHECK(values(dx)[static_cast<size_t>(i)] == Approx(2 * (1 + cdf + v * pdf)).epsilon(1e-5));
  }
}

TEST_CASE("markers run when all that follows them is differentiated", "[autograd]") {
  Cpu cpu;
  Tape tape(cpu.ctx);
  std::vector<int> order;
  const Tensor x = tape.leaf(cpu.make({1, 4}, 1));
  tape.marker([&] { order.push_back(1); });
  const Tensor a = gelu(tape, x, false);
  tape.marker([&] { order.push_back(2); });
  const Tensor y = gelu(tape, a, true);
  (void)tape.backward(y, cpu.make({1, 4}, 1), x);
  CHECK(order == std::vector<int>{2, 1});
}

TEST_CASE("a block of ops has the gradients of central differences, kept or recomputed", "[autograd][ops]") {
  Cpu cpu;
  const int64_t rows = 6, d = 16, f = 8;
  const HeadLayout layout{.batch = 2, .sequence = 3, .heads = 2, .kv_heads = 1, .head_dim = 4, .group = 2};
  const auto weight = [&](Shape shape, double scale, double shift = 0) {
    Weight w{cpu.make(shape, scale, shift), cpu.ctx.empty(shape, DType::f32)};
    cpu.ctx.zero(w.grad);
    return w;
  };
  const Weight gain = weight({d}, 0.2, 1), qkv = weight({layout.width(), d}, 0.3), bias = weight({layout.width()}, 0.1);
  const Weight o = weight({d, 8}, 0.3), o_bias = weight({d}, 0.1), up = weight({2 * f, d}, 0.3),
               down = weight({d, f}, 0.3);
  const auto block = [&](Tape& tape, const Tensor& x) {
    const Tensor h = linear(tape, rmsnorm(tape, x, gain, 1e-5f), qkv, bias);
    Tensor a = linear(tape, attention(tape, h, layout, {}), o);
    a = add(tape, x, add_bias(tape, a, o_bias));
    return add(tape, a, linear(tape, swiglu(tape, linear(tape, a, up)), down));
  };
  const std::vector<float> probe = values(cpu.make({rows, d}, 1));
  const auto loss = [&](const Tensor& x) {
    Tape silent(cpu.ctx, false);
    const Tensor y = block(silent, x);
    double sum = 0;
    for (size_t i = 0; i < probe.size(); ++i) sum += static_cast<double>(probe[i]) * static_cast<double>(values(y)[i]);
    return sum;
  };
  std::vector<std::vector<float>> gradients;
  const Tensor input = cpu.make({rows, d}, 0.7);
  for (const bool again : {false, true}) {
    for (const Weight* w : {&gain, &qkv, &bias, &o, &o_bias, &up, &down}) cpu.ctx.zero(w->grad);
    Tape tape(cpu.ctx);
    const Tensor x = tape.leaf(input);
    const Tensor y = again ? recompute(tape, x, block) : block(tape, x);
    Tensor dy = cpu.ctx.empty({rows, d}, DType::f32);
    std::copy(probe.begin(), probe.end(), static_cast<float*>(dy.data()));
    const Tensor dx = tape.backward(y, std::move(dy), x);
    gradients.push_back(values(dx));
    for (const Weight* w : {&gain, &qkv, &bias, &o, &o_bias, &up, &down}) gradients.push_back(values(w->grad));
  }
  const size_t kinds = gradients.size() / 2;
  for (size_t k = 0; k < kinds; ++k) CHECK(gradients[k] == gradients[kinds + k]);

  const std::vector<Tensor> moved = {input,   gain.value,   qkv.value, bias.value,
                                     o.value, o_bias.value, up.value,  down.value};
  for (size_t k = 0; k < kinds; ++k)
    for (int64_t i = 0; i < moved[k].numel(); i += 5) {
      auto* element = static_cast<float*>(moved[k].data()) + i;
      const float at = *element, step = 4e-3f;
      *element = at + step;
      const double plus = loss(input);
      *element = at - step;
      const double minus = loss(input);
      *element = at;
      INFO("tensor " << k << ", element " << i);
      CHECK(static_cast<double>(gradients[k][static_cast<size_t>(i)]) ==
            Approx((plus - minus) / (2 * static_cast<double>(step))).epsilon(2e-2).margin(3e-3));
    }
}

}  // namespace trainctl
