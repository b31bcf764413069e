// lib/checkpoint/transfers.cpp -- retries, short counts, and the way back to the page cache.
#include "checkpoint/transfers.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace trainctl {
namespace {
constexpr int kPatience = 200;  // EAGAIN in a row, with a pause of 1 ms each
}

Transfers::Transfers(const IoOptions& options) : opened_(open_queue(options)), use_direct_(options.use_direct) {
  slots_.resize(static_cast<size_t>(opened_.queue->depth()));
}

Transfers::~Transfers() { abandon(); }

void Transfers::abandon() noexcept {
  try {
    for (; active_ > 0; --active_) opened_.queue->wait();
  } catch (const std::exception&) {  // the queue's destructor does what can be done
  }
  active_ = 0;
  for (Slot& slot : slots_) slot.busy = false;
}

void Transfers::prepare(FileHandle& file) {
  if (use_direct_ && !file.set_direct(true)) direct_note_ = "O_DIRECT is refused";
  (file.direct() ? direct_ : cached_) = true;
}

void Transfers::start(const Transfer& transfer) {
  size_t free = 0;
  while (free < slots_.size() && slots_[free].busy) ++free;
  ensure(free < slots_.size(), "a transfer was started although the queue is full");
  slots_[free] = {transfer, 0, false, 0};
  submit(free);
}

void Transfers::submit(size_t slot) {
  Slot& s = slots_[slot];
  const Transfer& t = s.transfer;
  opened_.queue->submit({t.file->fd(), t.write, t.data + s.moved, t.bytes - s.moved, t.offset + s.moved, slot});
  s.busy = true;
  ++active_;
}

uint64_t Transfers::finish_one() {
  ensure(active_ > 0, "no transfer is in flight");
  for (;;) {
    const IoCompletion completion = opened_.queue->wait();
    Slot& slot = slots_[completion.tag];
    slot.busy = false;  // until it is asked for again
    --active_;
    if (account(slot, completion.result)) return slot.transfer.tag;
    submit(completion.tag);
  }
}

bool Transfers::account(Slot& slot, int64_t result) {
  const Transfer& t = slot.transfer;
  const auto refuse = [&t](const std::string& why) {
    fail(t.write ? ErrorKind::environment : ErrorKind::checkpoint,
         fmt::format("cannot {} {}: {}", t.write ? "write" : "read", t.file->path().string(), why));
  };
  if (result == -EINTR) return false;
  const auto to_page_cache = [&](const char* why) {
    t.file->set_direct(false);
    direct_note_ = why;
    cached_ = true;
  };
  // Every transfer that was in flight when O_DIRECT was given up comes by here: those may go on as well.
  if (result == -EINVAL && use_direct_ && (t.file->direct() || slot.stalls == 0)) {
    if (t.file->direct()) to_page_cache("O_DIRECT is refused");
    ++slot.stalls;
    return false;
  }
  if (result == -EAGAIN && ++slot.stalls < kPatience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  if (result < 0) refuse(std::generic_category().message(static_cast<int>(-result)));
  if (result == 0 && !t.write)
    refuse(fmt::format("it ends at byte {}, {} more are needed", t.offset + slot.moved, t.need - slot.moved));
  if (result == 0) {
    if (++slot.stalls > 1) refuse("no byte is accepted");
    return false;
  }
  slot.stalls = 0;
  slot.moved += result;
  if (slot.moved >= t.need) return true;
  if (t.file->direct() && slot.moved % kDirectAlignment != 0) to_page_cache("a direct transfer ended off a boundary");
  return false;
}

std::string Transfers::path_in_use() const {
  std::string text = fmt::format("{}, {}", opened_.queue->name(), cached_ ? "page cache" : "direct");
  std::string why = opened_.note;
  if (!direct_note_.empty()) why += (why.empty() ? "" : "; ") + direct_note_;
  return why.empty() ? text : fmt::format("{} ({})", text, why);
}

}  // namespace trainctl
