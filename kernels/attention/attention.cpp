// kernels/attention/attention.cpp -- checks the contract and hands the CPU kernels plain pointers.
#include "kernels/attention/attention_cpu.h"
#include "kernels/common/entry.h"
#include "kernels/cpu_entries.h"

namespace trainctl::kernels {
namespace {

template <class View>
AttentionStrides strides(const View& v) {
  return {v.stride(0), v.stride(1), v.stride(2)};
}
template <class View>
void check(const View& v, const Shape& shape, DType dtype, const char* text) {
  ensure(v.rank() == 4 && v.shape == shape && v.dtype == dtype && row_contiguous(v), text);
}

template <class Args>
AttentionShape shape_of(const Args& a, const char* kernel) {
  const std::string who = kernel;
  ensure(a.q.rank() == 4 && a.k.rank() == 4, who + ": q must be [B, S, H, D], k and v [B, S, K, D]");
  const int64_t batch = a.q.dim(0), positions = a.q.dim(1), heads = a.q.dim(2), kv_heads = a.k.dim(2), dim = a.q.dim(3);
  const Shape kv = {batch, positions, kv_heads, dim};
  const std::string text = who + ": q, k, v and their like differ in shape or dtype, or a last stride is not 1";
  check(a.q, a.q.shape, a.q.dtype, text.c_str());
  check(a.k, kv, a.q.dtype, text.c_str());
  check(a.v, kv, a.q.dtype, text.c_str());
  check(a.out, a.q.shape, a.q.dtype, text.c_str());
  ensure(a.group >= 1 && a.head_offset >= 0 && (heads == 0 || (a.head_offset + heads - 1) / a.group < kv_heads),
         who + ": a query head's key/value head lies outside k");
  ensure(a.lse.numel() == batch * heads * positions && contiguous(a.lse),
         who + ": lse must be contiguous f32 [B, H, S]");
  ensure(!a.document_start || (a.document_start.numel() == batch * positions && contiguous(a.document_start)),
         who + ": document_start must be contiguous i32 [B, S]");
  ensure(positions < (int64_t{1} << 31), who + ": positions must fit 32 bits");
  return {.batch = batch,
          .positions = positions,
          .heads = heads,
          .kv_heads = kv_heads,
          .dim = dim,
          .group = a.group,
          .head_offset = a.head_offset,
          .document_start = a.document_start ? a.document_start.template as<int32_t>() : nullptr,
          .scale = a.scale,
          .bf16 = is_bf16(a.q, kernel)};
}

template <void (*run)(const AttentionForwardCpu&)>
void forward_entry(const AttentionForward& a, Stream& stream) {
  const AttentionForwardCpu k{.shape = shape_of(a, "attention_forward"),
                              .q = a.q.data,
                              .k = a.k.data,
                              .v = a.v.data,
                              .out = a.out.data,
                              .q_at = strides(a.q),
                              .k_at = strides(a.k),
                              .v_at = strides(a.v),
                              .out_at = strides(a.out),
                              .lse = a.lse.as<float>()};
  if (a.q.numel() > 0) stream.enqueue([k] { run(k); });
}

template <void (*run)(const AttentionBackwardCpu&)>
void backward_entry(const AttentionBackward& a, Stream& stream) {
  const AttentionShape shape = shape_of(a, "attention_backward");
  const char* text =
      "attention_backward: a gradient differs from its tensor in shape or dtype, or its last stride is not 1";
  check(a.dout, a.q.shape, a.q.dtype, text);
  check(a.dq, a.q.shape, a.q.dtype, text);
  check(a.dk, a.k.shape, a.q.dtype, text);
  check(a.dv, a.k.shape, a.q.dtype, text);
  ensure(a.delta.numel() == a.lse.numel() && contiguous(a.delta),
         "attention_backward: delta must be contiguous f32 [B, H, S]");
  const AttentionBackwardCpu k{.shape = shape,
                               .q = a.q.data,
                               .k = a.k.data,
                               .v = a.v.data,
                               .out = a.out.data,
                               .dout = a.dout.data,
                               .dq = a.dq.data,
                               .dk = a.dk.data,
                               .dv = a.dv.data,
                               .q_at = strides(a.q),
                               .k_at = strides(a.k),
                               .v_at = strides(a.v),
                               .out_at = strides(a.out),
                               .dout_at = strides(a.dout),
                               .dq_at = strides(a.dq),
                               .dk_at = strides(a.dk),
                               .dv_at = strides(a.dv),
                               .lse = a.lse.as<float>(),
                               .delta = a.delta.as<float>()};
  if (a.k.numel() > 0) stream.enqueue([k] { run(k); });
}

}  // namespace

void add_attention(KernelTable& table, Level level) {
  table.set<AttentionForward>(TRAINCTL_PICK(level, forward_entry, attention_forward));
  table.set<AttentionBackward>(TRAINCTL_PICK(level, backward_entry, attention_backward));
}

}  // namespace trainctl::kernels
