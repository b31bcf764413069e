// lib/checkpoint/io_buffer.h -- memory that direct reads and writes take: aligned, in huge pages where there are some.
#pragma once

#include <cstdint>

namespace trainctl {

class IoBuffer {
 public:
  explicit IoBuffer(int64_t bytes);  // zeros; throws Error{memory}
  ~IoBuffer();
  IoBuffer(const IoBuffer&) = delete;
  IoBuffer& operator=(const IoBuffer&) = delete;
  char* data() const { return data_; }

 private:
  int64_t held_;
  void* memory_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace trainctl
