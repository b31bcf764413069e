// kernels/gemm/dnnl_matmul.cpp -- the oneDNN matmul primitive behind a per-thread cache.
#include "kernels/gemm/dnnl_matmul.h"

#include <dnnl.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "kernels/common/threads.h"

namespace trainctl::kernels {
namespace {

using dnnl::memory;

// A dimension of size one has no meaningful stride; oneDNN wants one that fits a plain layout.
memory::dims strides(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if (rows == 1 && col == 1) row = cols;
  if (cols == 1 && row == 1) col = rows;
  if (cols == 1 && row != 1) col = 1;
  if (rows == 1 && col != 1) row = 1;
  return {row, col};
}
memory::data_type type(bool bf16) { return bf16 ? memory::data_type::bf16 : memory::data_type::f32; }

struct Ready {
  dnnl::matmul primitive;
  memory a, b, bias, c;
  std::unordered_map<int, memory> arguments;
};

class Matmuls {
 public:
  // Null when only the reference implementation would run a bf16 problem.
  Ready* find(const MatmulProblem& p) {
    const std::pair key(p, kernel_threads());
    auto found = ready_.find(key);
    if (found == ready_.end()) {
      if (ready_.size() >= static_cast<size_t>(kMatmulCache)) ready_.clear();  // oneDNN keeps compiled code of its own
      found = ready_.emplace(key, build(p)).first;
    }
    return found->second ? &*found->second : nullptr;
  }
  dnnl::stream& stream() { return stream_; }

 private:
  std::optional<Ready> build(const MatmulProblem& p) {
    const memory::desc a({p.m, p.k}, type(p.bf16_in), strides(p.m, p.k, p.a_row, p.a_col));
    const memory::desc b({p.k, p.n}, type(p.bf16_in), strides(p.k, p.n, p.b_row, p.b_col));
    const memory::desc c({p.m, p.n}, type(p.bf16_out), strides(p.m, p.n, p.c_row, 1));
    const memory::desc bias = p.bias == BiasKind::none
                                  ? memory::desc()
                                  : memory::desc({1, p.n}, type(p.bias == BiasKind::bf16), memory::dims{p.n, 1});
    dnnl::primitive_attr attributes;
    if (p.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc wanted =
        p.bias == BiasKind::none ? dnnl::matmul::desc(a, b, c) : dnnl::matmul::desc(a, b, bias, c);
    const dnnl::matmul::primitive_desc chosen(wanted, attributes, engine_, /*allow_empty=*/true);
    if (!chosen) {
      if (p.bf16_in) return std::nullopt;
      fail(ErrorKind::internal, "gemm: oneDNN offers no implementation for an f32 product");
    }
    if (p.bf16_in && std::string_view(chosen.impl_info_str()).starts_with("ref")) return std::nullopt;
    Ready r;
    r.primitive = dnnl::matmul(chosen);
    r.a = memory(a, engine_, nullptr);
    r.b = memory(b, engine_, nullptr);
    r.c = memory(c, engine_, nullptr);
    r.arguments = {{DNNL_ARG_SRC, r.a}, {DNNL_ARG_WEIGHTS, r.b}, {DNNL_ARG_DST, r.c}};
    if (p.bias != BiasKind::none) {
      r.bias = memory(bias, engine_, nullptr);
      r.arguments.emplace(DNNL_ARG_BIAS, r.bias);
    }
    return r;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::pair<MatmulProblem, int>, std::optional<Ready>> ready_;
};

}  // namespace

bool dnnl_matmul(const MatmulProblem& problem, const void* a, const void* b, const void* bias, void* c) {
  try {
    thread_local Matmuls matmuls;
    Ready* ready = matmuls.find(problem);
    if (!ready) return false;
    // oneDNN's handles are not const; it does not write through those of its inputs.
    ready->a.set_data_handle(const_cast<void*>(a));
    ready->b.set_data_handle(const_cast<void*>(b));
    if (problem.bias != BiasKind::none) ready->bias.set_data_handle(const_cast<void*>(bias));
    ready->c.set_data_handle(c);
    ready->primitive.execute(matmuls.stream(), ready->arguments);
    matmuls.stream().wait();
    return true;
  } catch (const dnnl::error& e) {
    fail(ErrorKind::internal, std::string("gemm: oneDNN: ") + e.what());
  }
}

}  // namespace trainctl::kernels
