// lib/autograd/parameter.cpp -- views over the flat buffers.
#include "autograd/parameter.h"

#include "base/error.h"

namespace trainctl {

ParameterPtr make_parameter(ParameterSpec spec) {
  auto p = std::make_shared<Parameter>();
  p->box.extent = spec.shape;
  p->box.offset = spec.shape;
  for (int d = 0; d < spec.shape.rank(); ++d) p->box.offset[d] = 0;
  p->spec = std::move(spec);
  return p;
}

Weight weight_of(const ParameterPtr& p) { return p ? Weight{p->value, p->grad} : Weight{}; }

Weight stacked(const std::vector<ParameterPtr>& parts) {
  if (parts.empty() || !parts.front()) return {};
  Shape shape = parts.front()->box.extent;
  int64_t end = parts.front()->flat_offset;
  shape[0] = 0;
  for (const ParameterPtr& p : parts) {
    ensure(p->flat_offset == end, "stacked parameters are not neighbours in the flat buffer");
    end += p->box.extent.numel();
    shape[0] += p->box.extent[0];
  }
  const auto widen = [&](const Tensor& first) {
    return first ? first.strided(shape, contiguous_strides(shape), 0) : Tensor();
  };
  return {widen(parts.front()->value), widen(parts.front()->grad)};
}

}  // namespace trainctl
