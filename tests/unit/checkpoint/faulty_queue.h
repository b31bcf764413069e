// tests/unit/checkpoint/faulty_queue.h -- a queue that does less than it is asked for, or spoils what it reads.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "checkpoint/io_queue.h"

namespace trainctl::testing {

struct Fate {
  int64_t result = kPerform;  // else the completion's result, and nothing is done
  int64_t at_most = -1;       // perform only so many bytes; -1: all
  bool spoil = false;         // flip a bit of what was read
  static constexpr int64_t kPerform = INT64_MIN;
};

class FaultyQueue final : public IoQueue {
 public:
  using Decide = std::function<Fate(const IoRequest&)>;
  FaultyQueue(std::unique_ptr<IoQueue> inner, Decide decide) : inner_(std::move(inner)), decide_(std::move(decide)) {}
  int depth() const override { return inner_->depth(); }
  std::string_view name() const override { return inner_->name(); }

  void submit(const IoRequest& request) override {
    const Fate fate = decide_(request);
    if (fate.result != Fate::kPerform) return made_up_.push_back({request.tag, fate.result});
    if (fate.spoil) spoiled_[request.tag] = static_cast<char*>(request.data);
    IoRequest less = request;
    if (fate.at_most >= 0 && fate.at_most < less.bytes) less.bytes = fate.at_most;
    inner_->submit(less);
  }

  IoCompletion wait() override {
    if (!made_up_.empty()) {
      const IoCompletion completion = made_up_.front();
      made_up_.pop_front();
      return completion;
    }
    const IoCompletion completion = inner_->wait();
    if (const auto spoiled = spoiled_.find(completion.tag); spoiled != spoiled_.end()) {
      spoiled->second[100] = static_cast<char>(spoiled->second[100] ^ 4);
      spoiled_.erase(spoiled);
    }
    return completion;
  }

 private:
  std::unique_ptr<IoQueue> inner_;
  Decide decide_;
  std::deque<IoCompletion> made_up_;
  std::map<uint64_t, char*> spoiled_;
};

// For CheckpointerOptions::wrap_io.
inline auto faulty(FaultyQueue::Decide decide) {
  return [decide = std::move(decide)](std::unique_ptr<IoQueue> inner) -> std::unique_ptr<IoQueue> {
    return std::make_unique<FaultyQueue>(std::move(inner), decide);
  };
}

}  // namespace trainctl::testing
