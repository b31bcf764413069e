// lib/model/ends.cpp -- the first and the last module: embedding; final norm, head and loss. And what all modules
// share.
#include <fmt/format.h>

#include "model/layers.h"

namespace trainctl {
namespace {

constexpr AxisUse kNone{};

ParameterSpec embedding_spec(const ModelConfig& c, std::string name) {
  const AxisUse vocab{LogicalAxis::vocab, *c.vocab.value, 1, 1};
  ParameterSpec spec = matrix_spec(std::move(name), *c.vocab.value, c.d_model, vocab, kNone, c.init_std);
  spec.inside_region = true;
  return spec;
}

class Embedding final : public Module {
 public:
  Embedding(const ModelConfig& c, const Architecture& a)
      : config_(c), weight_(make_parameter(embedding_spec(c, "embedding.weight"))), region_(new Region) {
    if (!a.rotary)
      positions_ = make_parameter(
          matrix_spec("position_embedding.weight", c.max_positions, c.d_model, kNone, kNone, c.init_std));
  }
  std::string name() const override { return "embedding"; }
  std::vector<ParameterPtr*> parameters() override {
    std::vector<ParameterPtr*> out{&weight_};
    if (positions_) out.push_back(&positions_);
    return out;
  }
  std::vector<std::unique_ptr<Region>*> regions() override { return {&region_}; }
  void bind(Context&) override {}

  Tensor forward(ForwardPass& pass, const Tensor&) override {
    Tape& tape = pass.tape;
    tape.context().place("forward embedding");
    const Span64 rows = region_->rows(pass.batch.tokens.dim(0));
    Tensor x = region_->leave(tape, embedding(tape, pass.batch.tokens, weight_of(weight_), weight_->box.offset[0]));
    if (positions_)
      x = add(tape, x, embedding(tape, pass.batch.positions.slice(0, rows.begin, rows.end), weight_of(positions_), 0));
    return dropout(tape, x, dropout_key(pass, config_.dropout, -1, 0, rows));
  }

 private:
  ModelConfig config_;
  ParameterPtr weight_, positions_;
  std::unique_ptr<Region> region_;
};

class Head final : public Module {
 public:
  Head(const ModelConfig& c, const Architecture& a)
      : norm_(c, a.norm, "final_norm"),
        weight_(make_parameter(embedding_spec(c, c.tie_embeddings ? "embedding.weight" : "head.weight"))),
        region_(new Region),
        reducer_(new VocabReducer) {}
  std::string name() const override { return "head"; }
  std::vector<ParameterPtr*> parameters() override {
    std::vector<ParameterPtr*> out;
    norm_.parameters(out);
    out.push_back(&weight_);
    return out;
  }
  std::vector<std::unique_ptr<Region>*> regions() override { return {&region_}; }
  std::unique_ptr<VocabReducer>* vocab_reducer() override { return &reducer_; }
  void bind(Context&) override {}

  Tensor forward(ForwardPass& pass, const Tensor& x) override {
    Tape& tape = pass.tape;
    tape.context().place("forward head and loss");
    const Tensor whole = region_->enter(tape, norm_.forward(tape, x), pass.batch.tokens.dim(0));
    return linear_cross_entropy(tape, whole, weight_of(weight_), pass.batch.labels, *reducer_, pass.loss_sum,
                                {.column_begin = weight_->box.offset[0], .scale = pass.loss_scale});
  }

  Tensor logits(ForwardPass& pass, const Tensor& x) override {
    Context& ctx = pass.tape.context();
    Tape silent(ctx, /*recording=*/false);
    const Tensor whole = region_->enter(silent, norm_.forward(silent, x), pass.batch.tokens.dim(0));
    const Tensor scores = ctx.empty({whole.dim(0), weight_->box.extent[0]}, DType::f32);
    ctx.run(kernels::Gemm{.a = whole, .b = weight_->value.transpose(), .bias = {}, .c = scores});
    return scores;
  }

 private:
  Norm norm_;
  ParameterPtr weight_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<VocabReducer> reducer_;
};

}  // namespace

std::unique_ptr<Module> make_embedding(const ModelConfig& config, const Architecture& architecture) {
  return std::make_unique<Embedding>(config, architecture);
}
std::unique_ptr<Module> make_head(const ModelConfig& config, const Architecture& architecture) {
  return std::make_unique<Head>(config, architecture);
}

Norm::Norm(const ModelConfig& config, NormKind kind, const std::string& prefix, bool inside_region)
    : kind_(kind), eps_(static_cast<float>(config.norm_eps)) {
  ParameterSpec weight = vector_spec(prefix + ".weight", config.d_model, kNone, InitKind::ones);
  weight.inside_region = inside_region;
  weight_ = make_parameter(std::move(weight));
  if (kind == NormKind::layernorm)
    bias_ = make_parameter(vector_spec(prefix + ".bias", config.d_model, kNone, InitKind::zeros));
}

Tensor Norm::forward(Tape& tape, const Tensor& x) const {
  return kind_ == NormKind::rmsnorm ? rmsnorm(tape, x, weight_of(weight_), eps_)
                                    : layernorm(tape, x, weight_of(weight_), weight_of(bias_), eps_);
}

void Norm::parameters(std::vector<ParameterPtr*>& out) {
  out.push_back(&weight_);
  if (bias_) out.push_back(&bias_);
}

ParameterSpec matrix_spec(std::string name, int64_t rows, int64_t cols, AxisUse row_axis, AxisUse col_axis,
                          double std) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {rows, cols};
  spec.axes = {row_axis, col_axis};
  spec.init = InitKind::normal;
  spec.init_std = std;
  spec.decay = true;
  return spec;
}

ParameterSpec vector_spec(std::string name, int64_t size, AxisUse axis, InitKind init) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = {size};
  spec.axes = {axis, AxisUse{}};
  spec.init = init;
  return spec;
}

DropoutKey dropout_key(const ForwardPass& pass, double probability, int layer, int branch, Span64 rows) {
  if (!pass.dropout) return {};
  const uint64_t place = static_cast<uint64_t>(layer + 1) * 2 + static_cast<uint64_t>(branch);
  return {.probability = probability,
          .key = pass.seed,
          .site = (static_cast<uint64_t>(pass.step) << 16) | place,
          .first_token = pass.batch.first_token + rows.begin};
}

}  // namespace trainctl
