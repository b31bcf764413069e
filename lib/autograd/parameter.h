// lib/autograd/parameter.h -- a logical parameter, and the shard of it that a rank holds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/catalog.h"
#include "tensor/tensor.h"

namespace trainctl {

// What a dimension of a parameter means to the model. A strategy maps these to mesh axes; models know no mesh.
enum class LogicalAxis : uint8_t { none, vocab, heads, kv_heads, ffn };

struct AxisUse {
  LogicalAxis axis = LogicalAxis::none;
  int64_t count = 1;  // units along the dimension (heads, rows)
  int64_t unit = 1;   // elements per unit: a cut falls between units (head_dim)
  int64_t group = 1;  // kv_heads: query heads per key/value head; a shard holds the kv heads its query heads need
};

enum class InitKind : uint8_t { normal, ones, zeros };

struct ParameterSpec {
  std::string name;  // layout-free: "layers.3.attention.q.weight"
  Shape shape;       // logical
  std::array<AxisUse, 2> axes;
  InitKind init = InitKind::normal;
  double init_std = 0;
  bool decay = false;          // weight decay applies
  bool inside_region = false;  // used between a region's enter and leave (on whole sequences, local heads or columns)
  bool stacked = false;        // rows continue the parameter before it: one matrix to a fused projection
};

struct Parameter {
  ParameterSpec spec;
  Box box;                  // this rank's shard, in logical coordinates
  int64_t flat_offset = 0;  // of the shard in the rank's flat buffers, in elements
  Tensor value;             // compute dtype, shape box.extent
  Tensor grad;              // f32; empty when the model is not trained
};
using ParameterPtr = std::shared_ptr<Parameter>;

// What an op needs of a parameter, or of several stacked ones seen as one matrix.
struct Weight {
  Tensor value;
  Tensor grad;
  explicit operator bool() const { return static_cast<bool>(value); }
};

ParameterPtr make_parameter(ParameterSpec spec);  // box: whole
Weight weight_of(const ParameterPtr& p);          // empty for null
// Rows of neighbours in the flat buffer as one [sum of rows, columns] (or [sum] for vectors) weight.
Weight stacked(const std::vector<ParameterPtr>& parts);

}  // namespace trainctl
