// lib/runtime/executor.cpp -- see the header.
#include "runtime/executor.h"

#include <algorithm>

namespace trainctl {

Tensor Executor::receive(const Batch& batch, int peer, const char* place) {
  Context& ctx = *model_.context;
  ctx.place(place);
  Tensor x = ctx.empty({model_.rows(batch.tokens.dim(0)).size(), model_.config.d_model}, model_.compute_dtype);
  model_.world->group(Axis::pipeline).recv(x, peer, ctx.stream()).wait_on(ctx.stream());
  return x;
}

void Executor::send(const Tensor& x, int peer, Pending& previous, const char* place) {
  Context& ctx = *model_.context;
  ctx.place(place);
  previous.wait_on(ctx.stream());
  previous = model_.world->group(Axis::pipeline).send(x, peer, ctx.stream());
}

void Executor::forward(int m, const Batch& batch, const PassOptions& options) {
  Context& ctx = *model_.context;
  InFlight& flight = in_flight_[static_cast<size_t>(m)];
  flight.tape = std::make_unique<Tape>(ctx, options.train);
  Tensor x;
  if (!model_.first_stage())
    x = flight.input = flight.tape->leaf(receive(batch, model_.stage - 1, "receive activations"));
  ForwardPass pass{.tape = *flight.tape,
                   .batch = batch,
                   .seed = options.seed,
                   .step = options.step,
                   .loss_scale = options.loss_scale,
                   .loss_sum = options.loss_sum,
                   .dropout = options.train && model_.config.dropout > 0,
                   .recompute_blocks = options.train && options.recompute_blocks};
  for (size_t i = 0; i < model_.modules.size(); ++i) {
    const int index = static_cast<int>(i);
    flight.tape->marker([this, index] {
      if (last_backward_) model_.reducer->module_done(index);
    });
    x = model_.modules[i]->forward(pass, x);
    if (options.inspect) options.inspect(m, *model_.modules[i], x);
  }
  if (!model_.last_stage()) send(x, model_.stage + 1, sent_forward_, "send activations");
  if (options.train) {
    // The tape needs the output's place, not its bytes; those belong to the message.
    flight.output = Tensor();
    flight.output.set_variable(x.variable());
  } else {
    flight = {};
  }
}

void Executor::backward(int m, const Batch& batch) {
  Context& ctx = *model_.context;
  InFlight flight = std::move(in_flight_[static_cast<size_t>(m)]);
  in_flight_[static_cast<size_t>(m)] = {};
  Tensor dy;
  if (model_.last_stage())
    dy = ctx.empty({1}, DType::f64);  // stands for the loss; its op ignores it
  else
    dy = receive(batch, model_.stage + 1, "receive gradients");
  ctx.place("backward");
  Tensor dx = flight.tape->backward(flight.output, std::move(dy), flight.input);
  if (!model_.first_stage()) send(dx, model_.stage - 1, sent_backward_, "send gradients");
}

void Executor::run(const StageProgram& program, const Batches& batches, int micro_batches, const PassOptions& options) {
  in_flight_.clear();
  in_flight_.resize(static_cast<size_t>(micro_batches));
  int backwards = 0;
  for (const Action& action : program) {
    const Batch& batch = batches.micro_batch(action.micro_batch);
    if (action.phase == Phase::forward) {
      forward(action.micro_batch, batch, options);
    } else if (options.train) {
      last_backward_ = ++backwards == micro_batches;
      backward(action.micro_batch, batch);
    }
  }
  last_backward_ = false;
  Stream& stream = model_.context->stream();
  sent_forward_.wait_on(stream);
  sent_backward_.wait_on(stream);
}

}  // namespace trainctl
