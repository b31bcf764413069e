// lib/model/block.cpp -- one pre-norm transformer block: attention and feed-forward, each inside a region.
#include <fmt/format.h>

#include <cmath>

#include "model/layers.h"
#include "ops/rope_table.h"

namespace trainctl {
namespace {

constexpr AxisUse kNone{};

class Block final : public Module {
 public:
  Block(const ModelConfig& c, const Architecture& a, int layer, std::shared_ptr<SharedRope> rope)
      : config_(c),
        architecture_(a),
        layer_(layer),
        rope_(std::move(rope)),
        attention_norm_(c, a.norm, fmt::format("layers.{}.attention_norm", layer)),
        ffn_norm_(c, a.norm, fmt::format("layers.{}.ffn_norm", layer)) {
    const int64_t hd = *c.head_dim, d = c.d_model, kv = *c.kv_heads, ff = *c.d_ff;
    const AxisUse heads{LogicalAxis::heads, c.heads, hd, 1};
    const AxisUse kv_heads{LogicalAxis::kv_heads, kv, hd, c.heads / kv};
    const AxisUse ffn{LogicalAxis::ffn, ff, 1, 1};
    const double std = c.init_std, out_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers));
    const std::string at = fmt::format("layers.{}.attention.", layer), ffn_at = fmt::format("layers.{}.ffn.", layer);

    const auto inside = [](ParameterSpec s, bool stacked) {
      s.inside_region = true;
      s.stacked = stacked;
      return make_parameter(std::move(s));
    };
    qkv_ = {inside(matrix_spec(at + "q.weight", c.heads * hd, d, heads, kNone, std), false),
            inside(matrix_spec(at + "k.weight", kv * hd, d, kv_heads, kNone, std), true),
            inside(matrix_spec(at + "v.weight", kv * hd, d, kv_heads, kNone, std), true)};
    if (a.qkv_bias)
      qkv_bias_ = {inside(vector_spec(at + "q.bias", c.heads * hd, heads, InitKind::zeros), false),
                   inside(vector_spec(at + "k.bias", kv * hd, kv_heads, InitKind::zeros), true),
                   inside(vector_spec(at + "v.bias", kv * hd, kv_heads, InitKind::zeros), true)};
    if (a.qk_norm) {
      q_norm_ = inside(vector_spec(at + "q_norm.weight", hd, kNone, InitKind::ones), false);
      k_norm_ = inside(vector_spec(at + "k_norm.weight", hd, kNone, InitKind::ones), false);
    }
    o_ = inside(matrix_spec(at + "o.weight", d, c.heads * hd, kNone, heads, out_std), false);
    if (a.gated) up_.push_back(inside(matrix_spec(ffn_at + "gate.weight", ff, d, ffn, kNone, std), false));
    up_.push_back(inside(matrix_spec(ffn_at + "up.weight", ff, d, ffn, kNone, std), a.gated));
    down_ = inside(matrix_spec(ffn_at + "down.weight", d, ff, kNone, ffn, out_std), false);
    if (a.output_bias) {
      o_bias_ = make_parameter(vector_spec(at + "o.bias", d, kNone, InitKind::zeros));
      up_bias_ = inside(vector_spec(ffn_at + "up.bias", ff, ffn, InitKind::zeros), false);
      down_bias_ = make_parameter(vector_spec(ffn_at + "down.bias", d, kNone, InitKind::zeros));
    }
    attention_region_ = std::make_unique<Region>();
    ffn_region_ = std::make_unique<Region>();
  }

  std::string name() const override { return fmt::format("layers.{}", layer_); }
  int layer() const override { return layer_; }

  std::vector<ParameterPtr*> parameters() override {
    std::vector<ParameterPtr*> out;
    const auto all = [&](std::vector<ParameterPtr>& list) {
      for (ParameterPtr& p : list) out.push_back(&p);
    };
    attention_norm_.parameters(out);
    all(qkv_);
    all(qkv_bias_);
    for (ParameterPtr* p : {&q_norm_, &k_norm_, &o_, &o_bias_})
      if (*p) out.push_back(p);
    ffn_norm_.parameters(out);
    all(up_);
    for (ParameterPtr* p : {&up_bias_, &down_, &down_bias_})
      if (*p) out.push_back(p);
    return out;
  }

  std::vector<std::unique_ptr<Region>*> regions() override { return {&attention_region_, &ffn_region_}; }

  void bind(Context& context) override {
    const int64_t hd = *config_.head_dim;
    const Box& q = qkv_[0]->box;
    heads_ = {.heads = q.extent[0] / hd, .kv_heads = qkv_[1]->box.extent[0] / hd, .head_dim = hd};
    heads_.group = config_.heads / *config_.kv_heads;
    heads_.head_offset = (q.offset[0] / hd) % heads_.group;
    qkv_weight_ = stacked(qkv_);
    qkv_bias_weight_ = stacked(qkv_bias_);
    up_weight_ = stacked(up_);
    if (rope_) rope_table_ = rope_->table(context);
  }

  Tensor forward(ForwardPass& pass, const Tensor& x) override {
    if (!pass.recompute_blocks) return run(pass, pass.tape, x);
    return recompute(pass.tape, x, [this, pass](Tape& tape, const Tensor& in) mutable { return run(pass, tape, in); });
  }

 private:
  Tensor run(const ForwardPass& pass, Tape& tape, const Tensor& x) {
    const Context& ctx = tape.context();
    const Span64 rows = attention_region_->rows(pass.batch.batch * pass.batch.sequence);
    ctx.place("forward attention", layer_);
    const Tensor mid = branch(pass, tape, x, attention(pass, tape, x), o_bias_, 0, rows);
    ctx.place("forward ffn", layer_);
    return branch(pass, tape, mid, feed_forward(pass, tape, mid), down_bias_, 1, rows);
  }

  // x + dropout(partial sums met + bias)
  Tensor branch(const ForwardPass& pass, Tape& tape, const Tensor& x, Tensor out, const ParameterPtr& bias, int which,
                Span64 rows) {
    Tensor met = (which == 0 ? attention_region_ : ffn_region_)->leave(tape, out);
    out = Tensor();  // so that the bias is added in place when nobody else holds the sums
    met = add_bias(tape, met, weight_of(bias));
    met = dropout(tape, met, dropout_key(pass, config_.dropout, layer_, which, rows));
    return add(tape, x, met);
  }

  Tensor attention(const ForwardPass& pass, Tape& tape, const Tensor& x) {
    HeadLayout layout = heads_;
    layout.batch = pass.batch.batch;
    layout.sequence = pass.batch.sequence;
    const Tensor normed = attention_norm_.forward(tape, x);
    Tensor qkv = linear(tape, attention_region_->enter(tape, normed, layout.batch * layout.sequence), qkv_weight_,
                        qkv_bias_weight_);
    if (q_norm_)
      qkv = qk_norm(tape, qkv, layout, weight_of(q_norm_), weight_of(k_norm_), static_cast<float>(config_.norm_eps));
    if (rope_) qkv = rope(tape, qkv, layout, pass.batch.positions, rope_table_);
    return linear(tape, trainctl::attention(tape, qkv, layout, pass.batch.document_start), weight_of(o_));
  }

  Tensor feed_forward(const ForwardPass& pass, Tape& tape, const Tensor& x) {
    const Tensor normed = ffn_norm_.forward(tape, x);
    const Tensor up = linear(tape, ffn_region_->enter(tape, normed, pass.batch.batch * pass.batch.sequence), up_weight_,
                             weight_of(up_bias_));
    const Tensor hidden =
        architecture_.gated ? swiglu(tape, up) : gelu(tape, up, architecture_.activation == Activation::gelu_tanh);
    return linear(tape, hidden, weight_of(down_));
  }

  ModelConfig config_;
  Architecture architecture_;
  int layer_;
  std::shared_ptr<SharedRope> rope_;
  Norm attention_norm_, ffn_norm_;
  std::vector<ParameterPtr> qkv_, qkv_bias_, up_;
  ParameterPtr q_norm_, k_norm_, o_, o_bias_, up_bias_, down_, down_bias_;
  std::unique_ptr<Region> attention_region_, ffn_region_;
  HeadLayout heads_;  // batch and sequence filled per pass
  Weight qkv_weight_, qkv_bias_weight_, up_weight_;
  RopeTable rope_table_;
};

}  // namespace

std::unique_ptr<Module> make_block(const ModelConfig& config, const Architecture& architecture, int layer,
                                   std::shared_ptr<SharedRope> rope) {
  return std::make_unique<Block>(config, architecture, layer, std::move(rope));
}

const RopeTable& SharedRope::table(Context& context) {
  if (table_.cosine) return table_;
  const Shape shape{positions_, head_dim_ / 2};
  table_.cosine = context.empty(shape, DType::f32, MemoryCategory::other);
  table_.sine = context.empty(shape, DType::f32, MemoryCategory::other);
  if (context.shape_only()) return table_;
  const RopeScaling scaling{.kind = config_.scaling,
                            .theta = config_.theta,
                            .factor = config_.factor,
                            .low_freq_factor = config_.low_freq_factor,
                            .high_freq_factor = config_.high_freq_factor,
                            .original_positions = config_.original_positions,
                            .beta_fast = config_.beta_fast,
                            .beta_slow = config_.beta_slow,
                            .attention_factor = config_.attention_factor.value_or(0.0)};
  std::vector<float> cosine(static_cast<size_t>(shape.numel())), sine(cosine.size());
  fill_rope_table(positions_, head_dim_, scaling, cosine.data(), sine.data());
  Stream& stream = context.stream();
  context.device().copy_from_host(table_.cosine.data(), cosine.data(), table_.cosine.bytes(), stream);
  context.device().copy_from_host(table_.sine.data(), sine.data(), table_.sine.bytes(), stream);
  return table_;
}

}  // namespace trainctl
