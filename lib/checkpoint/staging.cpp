// lib/checkpoint/staging.cpp -- copying a catalog into the staging image.
#include "checkpoint/staging.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/transfers.h"

namespace trainctl {
namespace {

// Bytes one thread takes at a time. A plain copy is long enough that memcpy goes past the caches; one that is checked
// afterwards stays in them.
constexpr int64_t kPiece = 64 << 20;
constexpr int64_t kCheckedPiece = 4 << 20;
constexpr int64_t kWorthThreads = 32 << 20;  // below this a thread costs more than it brings

struct Piece {
  const char* from;
  char* to;
  int64_t bytes;
  const bf16* derived;  // null: none
  size_t entry;
};

// True when every bf16 is the cast of its f32 (any NaN stands for any NaN).
bool is_cast_of(const bf16* derived, const char* master, int64_t count) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    float m = 0;
    std::memcpy(&m, master + 4 * i, 4);
    const bool equal = bf16(m).bits == derived[i].bits;
    wrong += !equal && !(std::isnan(m) && std::isnan(float(derived[i])));
  }
  return wrong == 0;
}

}  // namespace

StagingArea::StagingArea(Arena& arena, const StateCatalog& catalog, int64_t rank)
    : device_(arena.device()),
      plan_(plan_shards(catalog, rank)),
      fingerprint_(catalog_fingerprint(catalog)),
      memory_(arena, Shape{staging_bytes(plan_)}, DType::u8, MemoryCategory::other) {
  if (device_.kind() == DeviceKind::shape_only || plan_.image_bytes == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(memory_.data());
  image_ = static_cast<char*>(memory_.data()) +
           (round_up(static_cast<int64_t>(address), kDirectAlignment) - static_cast<int64_t>(address));
  // A first touch costs twenty times a copy; it happens here, never inside a save. The zeros between the files stay.
  std::memset(image_, 0, static_cast<size_t>(plan_.image_bytes));
}

std::string StagingArea::stage(const StateCatalog& catalog, int threads) {
  ensure(device_.kind() != DeviceKind::shape_only, "a shape-only run has no state to save");
  const bool host = device_.kind() == DeviceKind::cpu;
  std::vector<Piece> pieces;
  int64_t total = 0;
  const std::unique_ptr<Stream> stream = host ? nullptr : device_.make_compute_stream();
  for (const PlannedFile& file : plan_.files)
    for (const PlannedTensor& t : file.tensors) {
      const StateEntry& e = catalog[t.entry];
      if (t.bytes == 0) continue;
      char* to = image() + t.image_offset;
      if (!host) {
        device_.copy_to_host(to, e.local.data(), t.bytes, *stream);
        continue;
      }
      total += t.bytes;
      const bf16* derived =
          t.derived < 0 ? nullptr : static_cast<const bf16*>(catalog[static_cast<size_t>(t.derived)].local.data());
      const int64_t piece = derived ? kCheckedPiece : kPiece;
      for (int64_t at = 0; at < t.bytes; at += piece)
        pieces.push_back({static_cast<const char*>(e.local.data()) + at, to + at, std::min(piece, t.bytes - at),
                          derived ? derived + at / 4 : nullptr, t.entry});
    }
  if (stream) stream->synchronize();
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> mismatch = -1;
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < pieces.size(); i = next.fetch_add(1)) {
      const Piece& p = pieces[i];
      std::memcpy(p.to, p.from, static_cast<size_t>(p.bytes));
      if (p.derived && !is_cast_of(p.derived, p.to, p.bytes / 4)) mismatch = static_cast<int64_t>(p.entry);
    }
  };
  {
    std::vector<std::jthread> helpers;
    const int wanted = total < kWorthThreads ? 1 : std::max(1, threads);
    try {
      for (int i = 1; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads for this process: those that there are do it
    }
    work();
  }
  if (mismatch < 0) return "";
  return fmt::format(
      "the bf16 weight \"{}\" is not the nearest-even cast of its f32 master, so the state is not "
      "consistent",
      catalog[static_cast<size_t>(mismatch.load())].name);
}

}  // namespace trainctl
