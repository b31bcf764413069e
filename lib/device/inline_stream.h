// lib/device/inline_stream.h -- the compute stream of devices whose work runs on the calling thread (cpu, shape_only).
#pragma once

#include "device/device.h"

namespace trainctl {

class InlineStream final : public Stream {
 public:
  void enqueue(const std::function<void()>& work) override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  double waited_s() const override { return waited_s_; }

 private:
  double waited_s_ = 0;
};

}  // namespace trainctl
