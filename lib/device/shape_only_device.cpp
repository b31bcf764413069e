// lib/device/shape_only_device.cpp -- addresses without storage: the dry run counts on it and touches nothing.
#include "base/units.h"
#include "device/inline_stream.h"

namespace trainctl {
namespace {

class ShapeOnlyDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::shape_only; }
  std::unique_ptr<Stream> make_compute_stream() override { return std::make_unique<InlineStream>(); }
  void* allocate(int64_t bytes) override {
    const uintptr_t at = next_;
    next_ += static_cast<uintptr_t>(round_up(bytes, 64));
    return reinterpret_cast<void*>(at);  // an address that is compared and offset, never read
  }
  void release(void*, int64_t) override {}
  void copy(void*, const void*, int64_t, Stream&) override {}
  void copy_to_host(void*, const void*, int64_t, Stream&) override {}
  void copy_from_host(void*, const void*, int64_t, Stream&) override {}
  void zero(void*, int64_t, Stream&) override {}

 private:
  uintptr_t next_ = 4096;
};

}  // namespace

std::unique_ptr<Device> make_shape_only_device() { return std::make_unique<ShapeOnlyDevice>(); }

}  // namespace trainctl
