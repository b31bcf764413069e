// kernels/layernorm/layernorm.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"
#include "kernels/layernorm/layernorm_cpu.h"

namespace trainctl::kernels {
namespace {

template <void (*run)(const LayerNormForwardCpu&)>
void forward_entry(const LayerNormForward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "layernorm_forward");
  ensure(a.x.rank() == 2 && a.y.shape == a.x.shape && row_contiguous(a.x) && row_contiguous(a.y),
         "layernorm_forward: x and y must be [R, C] with a last stride of 1");
  ensure(a.y.dtype == a.x.dtype && a.gain.dtype == a.x.dtype && a.bias.dtype == a.x.dtype,
         "layernorm_forward: x, y, gain and bias differ in dtype");
  ensure(a.gain.numel() == a.x.dim(1) && a.bias.numel() == a.x.dim(1) && a.mean.numel() == a.x.dim(0) &&
             a.rstd.numel() == a.x.dim(0),
         "layernorm_forward: gain and bias need C elements, mean and rstd R");
  if (a.x.numel() == 0) return;
  const LayerNormForwardCpu k{.x = a.x.data,
                              .gain = a.gain.data,
                              .bias = a.bias.data,
                              .y = a.y.data,
                              .mean = a.mean.as<float>(),
                              .rstd = a.rstd.as<float>(),
                              .rows = a.x.dim(0),
                              .cols = a.x.dim(1),
                              .x_stride = a.x.stride(0),
                              .y_stride = a.y.stride(0),
                              .eps = a.eps,
                              .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

template <void (*run)(const LayerNormBackwardCpu&)>
void backward_entry(const LayerNormBackward& a, Stream& stream) {
  const bool bf16 = is_bf16(a.x, "layernorm_backward");
  ensure(a.x.rank() == 2 && a.dx.shape == a.x.shape && a.dy.shape == a.x.shape && row_contiguous(a.x) &&
             row_contiguous(a.dx) && row_contiguous(a.dy),
         "layernorm_backward: x, dy and dx must be [R, C] with a last stride of 1");
  ensure(a.dx.dtype == a.x.dtype && a.dy.dtype == a.x.dtype && a.gain.dtype == a.x.dtype,
         "layernorm_backward: x, dy, dx and gain differ in dtype");
  ensure(a.gain.numel() == a.x.dim(1) && a.dgain.numel() == a.x.dim(1) && a.dbias.numel() == a.x.dim(1) &&
             a.mean.numel() == a.x.dim(0) && a.rstd.numel() == a.x.dim(0),
         "layernorm_backward: gain, dgain and dbias need C elements, mean and rstd R");
  if (a.x.numel() == 0) return;
  const LayerNormBackwardCpu k{.x = a.x.data,
                               .gain = a.gain.data,
                               .dy = a.dy.data,
                               .mean = a.mean.as<float>(),
                               .rstd = a.rstd.as<float>(),
                               .dx = a.dx.data,
                               .dgain = a.dgain.as<float>(),
                               .dbias = a.dbias.as<float>(),
                               .rows = a.x.dim(0),
                               .cols = a.x.dim(1),
                               .x_stride = a.x.stride(0),
                               .dy_stride = a.dy.stride(0),
                               .dx_stride = a.dx.stride(0),
                               .bf16 = bf16};
  stream.enqueue([k] { run(k); });
}

}  // namespace

void add_layernorm(KernelTable& table, Level level) {
  table.set<LayerNormForward>(TRAINCTL_PICK(level, forward_entry, layernorm_forward));
  table.set<LayerNormBackward>(TRAINCTL_PICK(level, backward_entry, layernorm_backward));
}

}  // namespace trainctl::kernels
