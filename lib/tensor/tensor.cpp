// lib/tensor/tensor.cpp -- strided views over shared storage.
#include "tensor/tensor.h"

#include "base/units.h"

namespace trainctl {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

DType dtype_from_name(std::string_view n) {
  for (const DType d : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    if (name(d) == n) return d;
  fail(ErrorKind::config, fmt::format("unknown dtype \"{}\"; known: f32, bf16, f64, i32, i64, u8", n));
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + "]";
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Tensor::Tensor(Arena& arena, Shape shape, DType dtype, MemoryCategory category)
    : shape_(shape), strides_(contiguous_strides(shape)), dtype_(dtype) {
  int64_t bytes = size_of(dtype);
  for (int i = 0; i < shape.rank(); ++i) {
    ensure(shape[i] >= 0, "a dimension is negative");
    bytes = checked_mul(bytes, shape[i]);
  }
  storage_ = std::make_shared<Storage>(arena, bytes, category);
}

bool Tensor::contiguous() const {
  const Shape plain = contiguous_strides(shape_);
  for (int i = 0; i < shape_.rank(); ++i)
    if (shape_[i] > 1 && strides_[i] != plain[i]) return false;
  return true;
}

void* Tensor::data() const {
  if (!storage_ || !storage_->data()) return nullptr;
  return static_cast<char*>(storage_->data()) + offset_ * size_of(dtype_);
}

Tensor Tensor::reshape(Shape shape) const {
  ensure(contiguous(), "reshape of a tensor that is not contiguous");
  ensure(shape.numel() == numel(), "reshape changes the number of elements");
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  return t;
}

Tensor Tensor::slice(int dim, int64_t begin, int64_t end) const {
  ensure(dim >= 0 && dim < rank() && begin >= 0 && begin <= end && end <= shape_[dim], "slice out of range");
  Tensor t = *this;
  t.offset_ += begin * strides_[dim];
  t.shape_[dim] = end - begin;
  return t;
}

Tensor Tensor::flat_slice(int64_t begin, Shape shape) const {
  ensure(contiguous() && begin >= 0 && begin + shape.numel() <= numel(), "flat slice out of range");
  Tensor t = *this;
  t.offset_ += begin;
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  return t;
}

Tensor Tensor::strided(Shape shape, Shape strides, int64_t offset_elements) const {
  Tensor t = *this;
  t.offset_ += offset_elements;
  t.shape_ = shape;
  t.strides_ = strides;
  return t;
}

Tensor Tensor::transpose() const {
  ensure(rank() >= 2, "transpose needs two dimensions");
  Tensor t = *this;
  const int a = rank() - 2, b = rank() - 1;
  std::swap(t.shape_[a], t.shape_[b]);
  std::swap(t.strides_[a], t.strides_[b]);
  return t;
}

}  // namespace trainctl
