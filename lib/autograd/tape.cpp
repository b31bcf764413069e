// lib/autograd/tape.cpp -- the replay, and how gradients of a variable used twice are summed.
#include "autograd/tape.h"

#include "base/error.h"

namespace trainctl {

Tensor Tape::leaf(Tensor x) {
  if (!recording_) return x;
  x.set_variable(static_cast<int>(gradients_.size()));
  gradients_.emplace_back();
  return x;
}

void Tape::record(const char* op, std::initializer_list<Tensor> inputs, Tensor& y, BackwardFunction backward) {
  if (!recording_) {
    y.set_variable(-1);
    return;
  }
  Node node;
  node.op = op;
  node.inputs.reserve(inputs.size());
  for (const Tensor& x : inputs) node.inputs.push_back(x.variable());
  y.set_variable(static_cast<int>(gradients_.size()));
  gradients_.emplace_back();
  node.output = y.variable();
  node.backward = std::move(backward);
  nodes_.push_back(std::move(node));
}

void Tape::marker(std::function<void()> done) {
  if (!recording_) return;
  Node node;
  node.marker = std::move(done);
  nodes_.push_back(std::move(node));
}

void Tape::accumulate(int variable, Tensor gradient) {
  if (variable < 0 || !gradient) return;
  Tensor& sum = gradients_[static_cast<size_t>(variable)];
  if (!sum) {
    sum = std::move(gradient);
    return;
  }
  // Into whichever operand nobody else holds; a third buffer only when both are shared.
  Tensor out = gradient.unique() ? gradient : sum.unique() ? sum : context_.empty_like(sum);
  context_.run(kernels::Add{.a = sum, .b = gradient, .y = out});
  sum = std::move(out);
}

Tensor Tape::backward(const Tensor& y, Tensor dy, const Tensor& of) {
  ensure(recording_, "backward of a tape that did not record");
  ensure(y.variable() >= 0, "backward of a tensor that this tape did not make");
  gradients_[static_cast<size_t>(y.variable())] = std::move(dy);
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    if (node.marker) {
      node.marker();
      continue;
    }
    Tensor upstream = std::move(gradients_[static_cast<size_t>(node.output)]);
    gradients_[static_cast<size_t>(node.output)] = Tensor();
    if (!upstream) continue;
    Gradients results = node.backward(upstream);
    node.backward = nullptr;  // frees what the op saved before anything new is allocated
    upstream = Tensor();
    ensure(results.size() == node.inputs.size(), "an op returned another number of gradients than it has inputs");
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor g = std::move(results[i]);
      accumulate(node.inputs[i], std::move(g));
    }
  }
  return of.variable() >= 0 ? std::move(gradients_[static_cast<size_t>(of.variable())]) : Tensor();
}

}  // namespace trainctl
