// lib/runtime/runtime.cpp -- the order of a step: load, count, forward and backward, reduce, norm, clip, update.
#include "runtime/runtime.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "runtime/executor.h"
#include "runtime/health.h"

namespace trainctl {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The sign of a NaN means nothing, and "-nan" is no word.
std::string shown(double x) { return std::isnan(x) ? std::string("NaN") : fmt::format("{:.6g}", x); }

BatchShape batch_shape(const ShardedModel& model, const RuntimeInputs& in) {
  ProcessGroup& data = model.world->group(Axis::data);
  return {.micro_batches = in.config.micro_batches.value(),
          .micro_batch_size = in.config.micro_batch_size.value(),
          .sequence = in.sequence_tokens,
          .data_parallel = data.size(),
          .data_rank = data.rank(),
          .document_mask = in.document_mask};
}

class TrainingRuntime final : public Runtime {
 public:
  TrainingRuntime(ShardedModel& model, Optimizer& optimizer, const RuntimeInputs& inputs)
      : model_(model),
        ctx_(*model.context),
        optimizer_(optimizer),
        in_(inputs),
        shape_(batch_shape(model, inputs)),
        batches_(ctx_, shape_),
        executor_(model) {
    const auto micro_batches = static_cast<int>(shape_.micro_batches);
    program_ =
        make_schedule(in_.pipeline_schedule, model.stages, micro_batches).programs.at(static_cast<size_t>(model.stage));
    for (int m = 0; m < micro_batches; ++m) forward_program_.push_back({Phase::forward, m});
    sums_ = ctx_.empty({2}, DType::f64, MemoryCategory::other);
    count_ = ctx_.empty({1}, DType::i64, MemoryCategory::other);
    if (in_.config.log_layer_norms)
      layer_sums_ = ctx_.empty({model.config.layers + 2}, DType::f64, MemoryCategory::other);
  }

  void start_at(int64_t step, int64_t sample) override { offset_ = sample - (step - 1) * shape_.global_batch(); }

  StepReport gradients(int64_t step) override {
    const auto start = std::chrono::steady_clock::now();
    const double exposed = ctx_.stream().waited_s();
    StepReport report;
    report.step = step;
    report.first_sample = (step - 1) * shape_.global_batch() + offset_;
    report.tokens = shape_.global_batch() * shape_.sequence;
    model_.world->recorder().set_step(step);

    ctx_.place("load the batch");
    const int64_t here = batches_.load(in_.source, SampleSplit::train, report.first_sample);
    report.data_wait_s = seconds_since(start);
    report.counted_tokens = summed_over_data(here);
    ctx_.zero(model_.grads);
    ctx_.zero(sums_);
    options_ = {.seed = static_cast<uint64_t>(in_.config.seed),
                .step = step,
                .loss_scale = report.counted_tokens > 0
                                  ? static_cast<float>(1.0 / static_cast<double>(report.counted_tokens))
                                  : 0.0f,
                .loss_sum = sums_.flat_slice(0, {1}),
                .train = true,
                .recompute_blocks = in_.config.recompute == "full",
                .inspect = {}};
    executor_.run(program_, batches_, static_cast<int>(shape_.micro_batches), options_);
    model_.reducer->finish();
    model_.replicas.run(ctx_);

    ctx_.place("gradient norm");
    const Tensor squares = sums_.flat_slice(1, {1});
    add_sum_of_squares(model_, squares);
    reduce(Axis::tensor, squares);
    reduce(Axis::data, sums_.flat_slice(0, {1}));
    reduce(Axis::pipeline, sums_);
    const auto [loss_sum, square_sum] = read_sums();
    report.loss = report.counted_tokens > 0 ? loss_sum / static_cast<double>(report.counted_tokens) : 0.0;
    report.grad_norm = std::sqrt(square_sum);
    if (layer_sums_) report.layer_norms = layer_norms();
    report.comm_exposed_s = ctx_.stream().waited_s() - exposed;
    report.step_s = seconds_since(start);
    return report;
  }

  StepReport step(int64_t step) override {
    const auto start = std::chrono::steady_clock::now();
    StepReport report = gradients(step);
    if (!std::isfinite(report.loss) || !std::isfinite(report.grad_norm)) refuse_non_finite(report);
    report.lr = learning_rate(in_.optimizer, step, in_.config.steps);
    report.clip_factor = clip_factor(report.grad_norm, in_.optimizer.clip_grad_norm);
    report.skipped = report.counted_tokens == 0;
    ctx_.place("optimizer step");
    if (!report.skipped) {
      before_update_();
      optimizer_.step({.step = step, .lr = report.lr, .grad_scale = static_cast<float>(report.clip_factor)});
    }
    ctx_.stream().synchronize();
    report.step_s = seconds_since(start);
    return report;
  }

  void before_update(std::function<void()> hook) override { before_update_ = std::move(hook); }

  double evaluate() override {
    ctx_.zero(sums_);
    int64_t here = 0;
    const PassOptions options{.loss_sum = sums_.flat_slice(0, {1}), .train = false, .inspect = {}};
    for (int64_t b = 0; b < in_.config.eval_batches; ++b) {
      ctx_.place("load an evaluation batch");
      here += batches_.load(in_.source, SampleSplit::validation, b * shape_.global_batch());
      executor_.run(forward_program_, batches_, static_cast<int>(shape_.micro_batches), options);
    }
    const int64_t counted = summed_over_data(here);
    reduce(Axis::data, sums_.flat_slice(0, {1}));
    reduce(Axis::pipeline, sums_.flat_slice(0, {1}));
    return counted > 0 ? read_sums().first / static_cast<double>(counted) : 0.0;
  }

 private:
  void reduce(Axis axis, const Tensor& x) {
    ProcessGroup& group = model_.world->group(axis);
    if (group.size() > 1) group.all_reduce(x, Reduce::sum, ctx_.stream()).wait_on(ctx_.stream());
  }

  std::vector<double> layer_norms() {
    ctx_.zero(layer_sums_);
    for (size_t m = 0; m < model_.modules.size(); ++m) {
      const bool head = model_.last_stage() && m + 1 == model_.modules.size();
      const int64_t place = head ? model_.config.layers + 1 : model_.modules[m]->layer() + 1;  // -1: the embedding
      add_sum_of_squares(model_, layer_sums_.flat_slice(place, {1}), model_.layout.module_range[m]);
    }
    reduce(Axis::tensor, layer_sums_);
    reduce(Axis::pipeline, layer_sums_);
    std::vector<double> norms(static_cast<size_t>(layer_sums_.numel()));
    ctx_.device().copy_to_host(norms.data(), layer_sums_.data(), layer_sums_.bytes(), ctx_.stream());
    ctx_.stream().synchronize();
    for (double& x : norms) x = std::sqrt(x);
    return norms;
  }

  int64_t summed_over_data(int64_t here) {
    ctx_.device().copy_from_host(count_.data(), &here, sizeof here, ctx_.stream());
    reduce(Axis::data, count_);
    if (ctx_.shape_only()) return here * shape_.data_parallel;
    ctx_.device().copy_to_host(&here, count_.data(), sizeof here, ctx_.stream());
    ctx_.stream().synchronize();
    return here;
  }

  std::pair<double, double> read_sums() {
    std::array<double, 2> host{};
    ctx_.device().copy_to_host(host.data(), sums_.data(), sums_.bytes(), ctx_.stream());
    ctx_.stream().synchronize();
    return {host[0], host[1]};
  }

  [[noreturn]] void refuse_non_finite(const StepReport& report) {
    const Finding f = find_non_finite(model_, executor_, forward_program_, batches_,
                                      static_cast<int>(shape_.micro_batches), options_);
    const std::string what = fmt::format(
        "the loss is {}, the gradient norm {}, the samples {} to {}; the weights of "
        "step {} are untouched",
        shown(report.loss), shown(report.grad_norm), report.first_sample,
        report.first_sample + shape_.global_batch() - 1, report.step - 1);
    if (f.rank == model_.world->rank())
      throw Error(ErrorKind::numeric, "here are the first values that are not finite; " + what)
          .at_rank(f.rank)
          .at(f.text);
    throw Error(ErrorKind::rank_failed,
                fmt::format("rank {} found values that are not finite in {}; {}", f.rank, f.text, what))
        .at_rank(f.rank);
  }

  ShardedModel& model_;
  Context& ctx_;
  Optimizer& optimizer_;
  RuntimeInputs in_;
  BatchShape shape_;
  int64_t offset_ = 0;  // first sample of step 1, were there no other: start_at()
  Batches batches_;
  Executor executor_;
  StageProgram program_, forward_program_;
  PassOptions options_;
  std::function<void()> before_update_ = [] {};
  Tensor sums_;        // f64: summed loss, sum of squared gradients
  Tensor count_;       // i64: counted labels
  Tensor layer_sums_;  // f64: squared gradients of the embedding, each layer, the head; empty unless asked for
};

}  // namespace

std::unique_ptr<Runtime> build_runtime(ShardedModel& model, Optimizer& optimizer, const RuntimeInputs& inputs) {
  return std::make_unique<TrainingRuntime>(model, optimizer, inputs);
}

}  // namespace trainctl
