// lib/autograd/tape.h -- reverse-mode differentiation: ops record their hand-written backward, backward() replays them.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/context.h"

namespace trainctl {

using Gradients = std::vector<Tensor>;  // one per input, in order; empty: none
// dy -> gradients of the inputs. May be called once; everything it captured is freed right after the call.
using BackwardFunction = std::function<Gradients(const Tensor& dy)>;

class Tape {
 public:
  // recording false: ops compute and save nothing (evaluation, the first pass of recomputation).
  explicit Tape(Context& context, bool recording = true) : context_(context), recording_(recording) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Context& context() const { return context_; }
  bool recording() const { return recording_; }

  // Makes `x` a variable whose gradient backward() returns.
  Tensor leaf(Tensor x);

  // Records y = op(inputs). Inputs that are no variable get no gradient. A gradient handed to an op may be shared with
  // other ops: an op writes over dy only when dy.unique().
  void record(const char* op, std::initializer_list<Tensor> inputs, Tensor& y, BackwardFunction backward);

  // `done` runs in the backward when everything recorded after this call has been differentiated.
  void marker(std::function<void()> done);

  // Replays from the last record to the first. `dy` is the gradient of `y`; returns the gradient of `of` (empty when
  // `of` is no variable or nothing reached it). Parameter gradients are accumulated by the ops. Consumes the tape.
  Tensor backward(const Tensor& y, Tensor dy, const Tensor& of);

 private:
  struct Node {
    const char* op = "";
    std::vector<int> inputs;
    int output = -1;
    BackwardFunction backward;
    std::function<void()> marker;
  };
  void accumulate(int variable, Tensor gradient);
  Context& context_;
  bool recording_;
  std::vector<Node> nodes_;
  std::vector<Tensor> gradients_;  // by variable
};

}  // namespace trainctl
