// tests/kernels/threads_test.cpp -- results do not depend on the number of threads, bit for bit.
#include "fixture.h"
#include "support/catch.h"

using namespace trainctl;
using namespace trainctl::testing;
using namespace trainctl::kernels;

TEST_CASE("norms give the same bits for any number of threads", "[kernels][threads]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage) {
      INFO(level << " " << name(dtype));
      Rig rig;
      const auto table = cpu_kernels_at(level);
      const int64_t rows = 333, cols = 260;
      const Tensor x = rig.random({rows, cols}, dtype, 1), gain = rig.random({cols}, dtype, 2);
      const Tensor bias = rig.random({cols}, dtype, 3), dy = rig.random({rows, cols}, dtype, 4);
      CHECK(same_for_any_thread_count([&] {
        const Tensor y = rig.empty({rows, cols}, dtype), mean = rig.empty({rows}), rstd = rig.empty({rows});
        const Tensor dx = rig.empty({rows, cols}, dtype), z = rig.empty({rows, cols}, dtype);
        const Tensor dgain = rig.constant({cols}, DType::f32, 0), dbias = rig.constant({cols}, DType::f32, 0);
        table.get<LayerNormForward>()({.x = x, .gain = gain, .bias = bias, .y = y, .mean = mean, .rstd = rstd},
                                      rig.stream());
        table.get<LayerNormBackward>()(
            {.x = x, .gain = gain, .mean = mean, .rstd = rstd, .dy = dy, .dx = dx, .dgain = dgain, .dbias = dbias},
            rig.stream());
        table.get<RmsNormForward>()({.x = x, .gain = gain, .y = z, .rstd = rstd}, rig.stream());
        const Tensor dz = rig.empty({rows, cols}, dtype), dgain2 = rig.constant({cols}, DType::f32, 0);
        table.get<RmsNormBackward>()({.x = x, .gain = gain, .rstd = rstd, .dy = dy, .dx = dz, .dgain = dgain2},
                                     rig.stream());
        return std::vector<Tensor>{y, mean, rstd, dx, dgain, dbias, z, dz, dgain2};
      }));
    }
}

TEST_CASE("attention gives the same bits for any number of threads", "[kernels][threads]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage) {
      INFO(level << " " << name(dtype));
      Rig rig;
      const auto table = cpu_kernels_at(level);
      const Shape shape = {2, 150, 6, 24}, kv = {2, 150, 3, 24}, rows = {2, 6, 150};
      const Tensor q = rig.random(shape, dtype, 1), k = rig.random(kv, dtype, 2), v = rig.random(kv, dtype, 3);
      const Tensor dout = rig.random(shape, dtype, 4);
      CHECK(same_for_any_thread_count([&] {
        const Tensor out = rig.empty(shape, dtype), lse = rig.empty(rows), dq = rig.empty(shape, dtype);
        const Tensor dk = rig.empty(kv, dtype), dv = rig.empty(kv, dtype), delta = rig.empty(rows);
        table.get<AttentionForward>()(
            {.q = q, .k = k, .v = v, .document_start = {}, .out = out, .lse = lse, .scale = 0.2f, .group = 2},
            rig.stream());
        table.get<AttentionBackward>()({.q = q,
                                        .k = k,
                                        .v = v,
                                        .document_start = {},
                                        .out = out,
                                        .lse = lse,
                                        .dout = dout,
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv,
                                        .delta = delta,
                                        .scale = 0.2f,
                                        .group = 2},
                                       rig.stream());
        return std::vector<Tensor>{out, lse, dq, dk, dv};
      }));
    }
}

TEST_CASE("elementwise kernels give the same bits for any number of threads", "[kernels][threads]") {
  for (const std::string& level : levels())
    for (const DType dtype : kStorage) {
      INFO(level << " " << name(dtype));
      Rig rig;
      const auto table = cpu_kernels_at(level);
      const int64_t rows = 211, cols = 402;
      const Tensor x = rig.random({rows, cols}, dtype, 1), dy = rig.random({rows, cols}, dtype, 2);
      const Tensor half = rig.random({rows, cols / 2}, dtype, 3), other = rig.empty({rows, cols});
      CHECK(same_for_any_thread_count([&] {
        std::vector<Tensor> out;
        for (const bool tanh_form : {false, true}) {
          const Tensor y = rig.empty({rows, cols}, dtype), dx = rig.empty({rows, cols}, dtype);
          table.get<GeluForward>()({.x = x, .y = y, .tanh_form = tanh_form}, rig.stream());
          table.get<GeluBackward>()({.x = x, .dy = dy, .dx = dx, .tanh_form = tanh_form}, rig.stream());
          out.insert(out.end(), {y, dx});
        }
        const Tensor y = rig.empty({rows, cols / 2}, dtype), dgate = rig.empty({rows, cols}, dtype);
        table.get<SwigluForward>()({.gate_up = x, .y = y}, rig.stream());
        table.get<SwigluBackward>()({.gate_up = x, .dy = half, .dgate_up = dgate}, rig.stream());
        const Tensor sum = rig.empty({rows, cols}, dtype), kept = rig.empty({rows, cols}, dtype);
        const Tensor wide = rig.empty({rows, cols});
        table.get<Add>()({.a = x, .b = dy, .y = sum}, rig.stream());
        table.get<Dropout>()({.x = x, .y = kept, .probability = 0.2, .key = 1, .site = 2}, rig.stream());
        table.get<Cast>()({.x = x, .y = wide}, rig.stream());
        out.insert(out.end(), {y, dgate, sum, kept, wide});
        return out;
      }));
    }
}

TEST_CASE("sums, losses, tables and updates give the same bits for any number of threads", "[kernels][threads]") {
  for (const std::string& level : levels()) {
    INFO(level);
    Rig rig;
    const auto table = cpu_kernels_at(level);
    const int64_t rows = 150, cols = 700;
    const Tensor x = rig.random({rows, cols}, DType::f32, 1), flat = x.reshape({rows * cols});
    std::vector<int32_t> words;
    for (int32_t t = 0; t < rows; ++t) words.push_back((t * 7) % 50);
    const Tensor ids = rig.integers(words), positions = ids;
    const Tensor cosine = rig.random({50, 5}, DType::f32, 5), sine = rig.random({50, 5}, DType::f32, 6);
    CHECK(same_for_any_thread_count([&] {
      const Tensor square = rig.constant({1}, DType::f64, 0), column = rig.constant({cols}, DType::f32, 0);
      table.get<SumOfSquares>()({.x = flat, .out = square}, rig.stream());
      table.get<ColumnSum>()({.x = x, .out = column}, rig.stream());
      const Tensor table_gradient = rig.constant({50, cols}, DType::f32, 0), y = rig.empty({rows, cols});
      table.get<EmbeddingBackward>()({.ids = ids, .dy = x, .dweight = table_gradient}, rig.stream());
      table.get<EmbeddingForward>()({.ids = ids, .weight = x, .y = y}, rig.stream());
      const Tensor maximum = rig.empty({rows}), sum = rig.empty({rows}), target = rig.empty({rows});
      const Tensor logits = rig.copy(x), turned = rig.copy(x);
      table.get<CrossEntropyMax>()({.logits = x, .maximum = maximum}, rig.stream());
      table.get<CrossEntropySum>()({.logits = x, .labels = ids, .maximum = maximum, .sum = sum, .target = target},
                                   rig.stream());
      table.get<CrossEntropyGrad>()({.logits = logits, .labels = ids, .maximum = maximum, .sum = sum, .dlogits = {}},
                                    rig.stream());
      table.get<Rope>()({.x = turned.reshape({rows, 70, 10}), .positions = positions, .cosine = cosine, .sine = sine},
                        rig.stream());
      const Tensor w = rig.copy(flat), m = rig.copy(flat), v = rig.constant({rows * cols}, DType::f32, 1);
      const Tensor weight = rig.empty({rows * cols}, DType::bf16), start = rig.empty({rows, cols});
      table.get<AdamW>()({.master = w, .m = m, .v = v, .weight = weight, .grad = flat, .lr = 0.1}, rig.stream());
      table.get<Sgd>()({.master = w, .buffer = m, .weight = {}, .grad = flat, .lr = 0.1, .momentum = 0.5},
                       rig.stream());
      table.get<InitNormal>()({.x = start, .key = 1, .stream = 2, .std = 1.0, .global_cols = cols}, rig.stream());
      return std::vector<Tensor>{square, column, table_gradient, y,    maximum, sum, target, logits, turned, w,
                                 m,      v,      weight,         start};
    }));
  }
}
