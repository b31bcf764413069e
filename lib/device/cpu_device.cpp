// lib/device/cpu_device.cpp -- host memory; compute work runs on the calling thread and its OpenMP team.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "device/inline_stream.h"

namespace trainctl {
namespace {

// mmap rather than malloc: large blocks get transparent huge pages, and a refusal is an error instead of a kill.
class CpuDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::unique_ptr<Stream> make_compute_stream() override { return std::make_unique<InlineStream>(); }

  void* allocate(int64_t bytes) override {
    if (bytes < kLarge) {
      void* data = std::aligned_alloc(64, static_cast<size_t>(round_up(bytes, 64)));
      if (!data) refuse(bytes);
      return data;
    }
    void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) refuse(bytes);
    madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    return data;
  }
  void release(void* data, int64_t bytes) override {
    if (bytes < kLarge)
      std::free(data);
    else
      munmap(data, static_cast<size_t>(bytes));
  }
  void copy(void* to, const void* from, int64_t bytes, Stream& stream) override {
    if (bytes > 0) stream.enqueue([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
  }
  void copy_to_host(void* to, const void* from, int64_t bytes, Stream& stream) override {
    copy(to, from, bytes, stream);
  }
  void copy_from_host(void* to, const void* from, int64_t bytes, Stream& stream) override {
    copy(to, from, bytes, stream);
  }
  void zero(void* to, int64_t bytes, Stream& stream) override {
    if (bytes > 0) stream.enqueue([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
  }

 private:
  static constexpr int64_t kLarge = 1 << 20;
  [[noreturn]] static void refuse(int64_t bytes) {
    fail(ErrorKind::memory, fmt::format("the system refused {} of memory", human_bytes(bytes)));
  }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace trainctl
