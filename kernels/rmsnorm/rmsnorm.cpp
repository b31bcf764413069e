// kernels/rmsnorm/rmsnorm.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/rmsnorm/rmsnorm_cpu.h"

namespace trainctl::kernels {
namespace {

template <class View>
void put_strides(const View& v, int64_t (&stride)[2]) {
  stride[0] = v.stride(0);
  stride[1] = v.rank() == 3 ? v.stride(1) : 0;
}
template <class View>
void check(const View& v, const ConstTensorView& x, const char* text) {
  ensure((v.rank() == 2 || v.rank() == 3) && v.shape == x.shape && row_contiguous(v) && v.dtype == x.dtype, text);
}

template <void (*run)(const RmsNormForwardCpu&)>
void forward_entry(const RmsNormForward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "rmsnorm_forward");
  const char* text = "rmsnorm_forward: x and y must be [R, C] or [T, H, C] of one dtype with a last stride of 1";
  check(a.x, a.x, text);
  check(a.y, a.x, text);
  if (a.x.numel() == 0) return;
  const int64_t cols = a.x.dim(a.x.rank() - 1), rows = a.x.numel() / cols;
  ensure(a.gain.dtype == a.x.dtype && a.gain.numel() == cols && a.rstd.numel() == rows && contiguous(a.rstd),
         "rmsnorm_forward: gain needs C elements of x's dtype, rstd one f32 per row");
  RmsNormForwardCpu k{};
  k.x = a.x.data, k.gain = a.gain.data, k.y = a.y.data, k.rstd = a.rstd.as<float>();
  k.rows = rows, k.heads = a.x.rank() == 3 ? a.x.dim(1) : 1, k.cols = cols, k.eps = a.eps, k.bf16 = bf16;
  put_strides(a.x, k.x_stride);
  put_strides(a.y, k.y_stride);
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const RmsNormBackwardCpu&)>
void backward_entry(const RmsNormBackward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "rmsnorm_backward");
  const char* text = "rmsnorm_backward: x, dy and dx must be [R, C] or [T, H, C] of one dtype with a last stride of 1";
  check(a.x, a.x, text);
  check(a.dy, a.x, text);
  check(a.dx, a.x, text);
  if (a.x.numel() == 0) return;
  const int64_t cols = a.x.dim(a.x.rank() - 1), rows = a.x.numel() / cols;
  ensure(a.gain.dtype == a.x.dtype && a.gain.numel() == cols && a.rstd.numel() == rows && contiguous(a.rstd) &&
             a.dgain.numel() == cols,
         "rmsnorm_backward: gain and dgain need C elements, rstd one f32 per row");
  RmsNormBackwardCpu k{};
  k.x = a.x.data, k.gain = a.gain.data, k.dy = a.dy.data, k.rstd = a.rstd.as<float>();
  k.dx = a.dx.data, k.dgain = a.dgain.as<float>();
  k.rows = rows, k.heads = a.x.rank() == 3 ? a.x.dim(1) : 1, k.cols = cols, k.bf16 = bf16;
  put_strides(a.x, k.x_stride);
  put_strides(a.dy, k.dy_stride);
  put_strides(a.dx, k.dx_stride);
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_rmsnorm(KernelTable& table, Level level) {
  table.set<RmsNormForward>(TRAINCTL_PICK(level, forward_entry, rmsnorm_forward));
  table.set<RmsNormBackward>(TRAINCTL_PICK(level, backward_entry, rmsnorm_backward));
}

}  // namespace trainctl::kernels
