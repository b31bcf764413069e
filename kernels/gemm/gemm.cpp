// kernels/gemm/gemm.cpp -- the ordered candidates of a matrix product: oneDNN on the storage type; for bf16 without
// fast instructions, oneDNN in f32 on panels converted a few megabytes at a time.
#include <algorithm>
#include <cstring>

#include "kernels/cast/cast_cpu.h"
#include "kernels/common/cpu.h"
#include "kernels/common/entry.h"
#include "kernels/common/scratch.h"
#include "kernels/cpu_entries.h"
#include "kernels/gemm/dnnl_matmul.h"

namespace trainctl::kernels {
namespace {

using Convert = void (*)(const CastCpu&);

struct Operands {
  MatmulProblem problem;
  const void *a, *b, *bias;
  void* c;
};

Operands check(const Gemm& g) {
  const auto one_unit_stride = [](const ConstTensorView& v) {
    return v.rank() == 2 && (v.stride(0) == 1 || v.stride(1) == 1 || v.dim(0) == 1 || v.dim(1) == 1);
  };
  ensure(one_unit_stride(g.a) && one_unit_stride(g.b), "gemm: a and b need two dimensions, one of stride 1");
  ensure(g.c.rank() == 2 && row_contiguous(g.c), "gemm: c needs two dimensions and a last stride of 1");
  ensure(g.a.dim(0) == g.c.dim(0) && g.b.dim(1) == g.c.dim(1) && g.a.dim(1) == g.b.dim(0),
         "gemm: a [m, k], b [k, n] and c [m, n] do not fit together");
  const bool bf16_in = is_bf16(g.a, "gemm"), bf16_out = is_bf16(g.c, "gemm");
  ensure(g.b.dtype == g.a.dtype, "gemm: a and b differ in dtype");
  ensure(bf16_in || !bf16_out, "gemm: c may be bf16 only when a and b are");
  ensure(!g.bias || (g.bias.dtype == g.b.dtype && g.bias.numel() == g.c.dim(1) && contiguous(g.bias)),
         "gemm: bias must be contiguous [n] of b's dtype");
  const BiasKind bias = !g.bias ? BiasKind::none : bf16_in ? BiasKind::bf16 : BiasKind::f32;
  return {.problem = {.m = g.c.dim(0),
                      .n = g.c.dim(1),
                      .k = g.a.dim(1),
                      .a_row = g.a.stride(0),
                      .a_col = g.a.stride(1),
                      .b_row = g.b.stride(0),
                      .b_col = g.b.stride(1),
                      .c_row = g.c.stride(0),
                      .bf16_in = bf16_in,
                      .bf16_out = bf16_out,
                      .accumulate = g.accumulate,
                      .bias = bias},
          .a = g.a.data,
          .b = g.b.data,
          .bias = g.bias.data,
          .c = g.c.data};
}

// k == 0: the product is zero.
template <class C, class Bias>
void only_bias(const Operands& o) {
  const MatmulProblem& p = o.problem;
  for (int64_t r = 0; r < p.m; ++r) {
    C* c = static_cast<C*>(o.c) + r * p.c_row;
    for (int64_t j = 0; j < p.n; ++j) {
      const float bias = o.bias ? static_cast<float>(static_cast<const Bias*>(o.bias)[j]) : 0.0f;
      c[j] = C((p.accumulate ? static_cast<float>(c[j]) : 0.0f) + bias);
    }
  }
}

// A box of a bf16 matrix as f32, rows and columns in the order that lies contiguously in memory.
struct Panel {
  const float* data;
  int64_t row, col;
};
Panel panel(Convert convert, ScratchSlot slot, const void* from, int64_t row, int64_t col, int64_t r0, int64_t rows,
            int64_t c0, int64_t cols) {
  const bool by_rows = col == 1 || (cols == 1 && row != 1);
  const int64_t outer = by_rows ? rows : cols, inner = by_rows ? cols : rows, stride = by_rows ? row : col;
  float* to = static_cast<float*>(scratch(slot, outer * inner * 4));
  convert({.x = static_cast<const bf16*>(from) + r0 * row + c0 * col,
           .y = to,
           .rows = outer,
           .cols = inner,
           .x_stride = stride,
           .y_stride = inner,
           .x_bf16 = true,
           .y_bf16 = false});
  return by_rows ? Panel{to, inner, 1} : Panel{to, 1, inner};
}

// Bounds the f32 copies to 8 MB each for a and b and 4 MB for c.
constexpr int64_t kPanelSide = 1024, kPanelDepth = 2048;

template <Convert convert>
void in_panels(const Operands& o) {
  const MatmulProblem& p = o.problem;
  for (int64_t n0 = 0; n0 < p.n; n0 += kPanelSide) {
    const int64_t n = std::min(kPanelSide, p.n - n0);
    for (int64_t m0 = 0; m0 < p.m; m0 += kPanelSide) {
      const int64_t m = std::min(kPanelSide, p.m - m0);
      bf16* c16 = static_cast<bf16*>(o.c) + m0 * p.c_row + n0;
      float* c = static_cast<float*>(o.c) + m0 * p.c_row + n0;
      int64_t c_row = p.c_row;
      if (p.bf16_out) {
        c = static_cast<float*>(scratch(ScratchSlot::panel_c, m * n * 4));
        c_row = n;
        if (p.accumulate)
          convert({.x = c16,
                   .y = c,
                   .rows = m,
                   .cols = n,
                   .x_stride = p.c_row,
                   .y_stride = n,
                   .x_bf16 = true,
                   .y_bf16 = false});
      }
      for (int64_t k0 = 0; k0 < p.k; k0 += kPanelDepth) {
        const int64_t k = std::min(kPanelDepth, p.k - k0);
        const Panel a = panel(convert, ScratchSlot::panel_a, o.a, p.a_row, p.a_col, m0, m, k0, k);
        const Panel b = panel(convert, ScratchSlot::panel_b, o.b, p.b_row, p.b_col, k0, k, n0, n);
        float* bias = nullptr;
        if (o.bias && k0 == 0) {
          bias = static_cast<float*>(scratch(ScratchSlot::work, n * 4));
          convert({.x = static_cast<const bf16*>(o.bias) + n0,
                   .y = bias,
                   .rows = 1,
                   .cols = n,
                   .x_stride = n,
                   .y_stride = n,
                   .x_bf16 = true,
                   .y_bf16 = false});
        }
        dnnl_matmul({.m = m,
                     .n = n,
                     .k = k,
                     .a_row = a.row,
                     .a_col = a.col,
                     .b_row = b.row,
                     .b_col = b.col,
                     .c_row = c_row,
                     .accumulate = p.accumulate || k0 > 0,
                     .bias = bias ? BiasKind::f32 : BiasKind::none},
                    a.data, b.data, bias, c);
      }
      if (p.bf16_out)
        convert({.x = c,
                 .y = c16,
                 .rows = m,
                 .cols = n,
                 .x_stride = n,
                 .y_stride = p.c_row,
                 .x_bf16 = false,
                 .y_bf16 = true});
    }
  }
}

template <bool kNative, Convert convert>
void run(const Operands& o) {
  const MatmulProblem& p = o.problem;
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (p.bf16_out)
      only_bias<bf16, bf16>(o);
    else if (p.bf16_in)
      only_bias<float, bf16>(o);
    else
      only_bias<float, float>(o);
    return;
  }
  if ((kNative || !p.bf16_in) && dnnl_matmul(p, o.a, o.b, o.bias, o.c)) return;
  in_panels<convert>(o);
}

template <Convert convert>
void native_entry(const Gemm& g, Stream& stream) {
  stream.enqueue([o = check(g)] { run<true, convert>(o); });
}
template <Convert convert>
void panel_entry(const Gemm& g, Stream& stream) {
  stream.enqueue([o = check(g)] { run<false, convert>(o); });
}

}  // namespace

// Below AVX-512 oneDNN has no bf16 product worth the name, and without AVX512_BF16 it emulates one: f32 panels win.
void add_gemm(KernelTable& table, Level level) {
  if (level == Level::avx512 && cpu_has_bf16())
    table.set<Gemm>(TRAINCTL_PICK(level, native_entry, cast));
  else
    table.set<Gemm>(TRAINCTL_PICK(level, panel_entry, cast));
}

}  // namespace trainctl::kernels
