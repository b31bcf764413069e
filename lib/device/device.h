// lib/device/device.h -- what the engine may know of hardware: memory, streams, events. Kinds: cpu, cuda (plugin),
// shape_only (no storage: the dry run executes the same engine code on it).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl {

enum class DeviceKind : uint8_t { cpu, cuda, shape_only };
std::string_view name(DeviceKind kind);

// A point in a stream's order. Waiting twice is legal.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool done() const = 0;
  virtual void wait_host() = 0;  // blocks the calling thread; rethrows what the work before the event threw
};
using Event = std::shared_ptr<EventState>;  // null: already done

// Work in order. The cpu compute stream runs work inside enqueue(); other streams may run it later.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void enqueue(const std::function<void()>& work) = 0;
  virtual Event record() = 0;
  virtual void wait(const Event& event) = 0;  // later work of this stream starts after `event`
  virtual void synchronize() = 0;             // blocks the host until all work is done
  virtual double waited_s() const = 0;        // time spent so far in wait(): communication that no work covered
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::unique_ptr<Stream> make_compute_stream() = 0;
  // At least 64-byte aligned. Throws Error{memory} with the bytes asked for.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* data, int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes, Stream& stream) = 0;            // same device
  virtual void copy_to_host(void* to, const void* from, int64_t bytes, Stream& stream) = 0;    // then synchronize
  virtual void copy_from_host(void* to, const void* from, int64_t bytes, Stream& stream) = 0;  // `from` is read at once
  virtual void zero(void* to, int64_t bytes, Stream& stream) = 0;
};

std::unique_ptr<Device> make_cpu_device();
std::unique_ptr<Device> make_shape_only_device();

}  // namespace trainctl
