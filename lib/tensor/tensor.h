// lib/tensor/tensor.h -- owned storage, strided tensors over it, and the plain views that kernels take.
#pragma once

#include <cstdint>
#include <memory>

#include "device/arena.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace trainctl {

// What a kernel sees: no ownership, strides in elements. The last dimension's stride is 1 unless a contract says else.
template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;

  int64_t dim(int i) const { return shape[i]; }
  int64_t stride(int i) const { return strides[i]; }
  int rank() const { return shape.rank(); }
  int64_t numel() const { return shape.numel(); }
  explicit operator bool() const { return data != nullptr; }
  template <class T>
  auto as() const {  // typed pointer; throws when T is not the dtype
    ensure(dtype_of<T> == dtype, "a view is read as another dtype than it has");
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>)
      return static_cast<const T*>(data);
    else
      return static_cast<T*>(data);
  }
};
struct TensorView : BasicView<void*> {};
struct ConstTensorView : BasicView<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const TensorView& v) : BasicView<const void*>{v.data, v.dtype, v.shape, v.strides} {}
};

// Owned bytes; returned to the arena when the last tensor over them goes.
class Storage {
 public:
  Storage(Arena& arena, int64_t bytes, MemoryCategory category)
      : arena_(arena), bytes_(bytes), category_(category), data_(arena.allocate(bytes, category)) {}
  ~Storage() { arena_.release(data_, bytes_, category_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Arena& arena_;
  int64_t bytes_;
  MemoryCategory category_;
  void* data_;
};

// A handle: copies share storage. An empty tensor (no storage) is false. Zero-element tensors are legal.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Arena& arena, Shape shape, DType dtype, MemoryCategory category);  // contiguous, uninitialised

  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int64_t dim(int i) const { return shape_[i]; }
  int rank() const { return shape_.rank(); }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  bool contiguous() const;
  explicit operator bool() const { return storage_ != nullptr; }
  bool unique() const { return storage_.use_count() == 1; }  // nobody else can see these bytes
  void* data() const;

  // Views: share storage, never copy. reshape requires contiguity.
  Tensor reshape(Shape shape) const;
  Tensor slice(int dim, int64_t begin, int64_t end) const;
  Tensor flat_slice(int64_t begin, Shape shape) const;  // of a contiguous tensor: elements [begin, begin + numel)
  Tensor strided(Shape shape, Shape strides, int64_t offset_elements) const;
  Tensor transpose() const;  // the last two dimensions swapped; a view whose last stride is not 1

  operator TensorView() const { return view(); }
  operator ConstTensorView() const { return ConstTensorView(view()); }
  TensorView view() const { return TensorView{{data(), dtype_, shape_, strides_}}; }

  int variable() const { return variable_; }  // index on a tape; -1: no gradient flows
  void set_variable(int v) { variable_ = v; }

 private:
  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // elements
  Shape shape_, strides_;
  DType dtype_ = DType::f32;
  int variable_ = -1;
};

Shape contiguous_strides(const Shape& shape);

}  // namespace trainctl
